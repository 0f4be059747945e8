#!/usr/bin/env bash
# Expected: A query whose mask allows no key (padding, a packed document's gap) gets one well-known answer, at least
#   within one library.
# Happens: torch's scaled_dot_product_attention gives zeros. jax.nn.dot_product_attention with the same boolean mask
#   gives the mean of all values, the masked ones too, and with the mask as a bias of -inf NaN. torch's
#   nn.MultiheadAttention gives NaN with need_weights=True, its default, and a number with need_weights=False.
# Versions: torch==2.13.0, numpy==2.4.6, jax==0.10.2, jaxlib==0.10.2
# Matters: A model ported with its weights agrees on every row but these, and they carry masked tokens into the
#   residual stream in jax. Switching need_weights for a plot turns a working module into NaN.
# Source: pytorch#160064 (open) for need_weights; pytorch#103963 for the history of zeros.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


x = np.random.default_rng(0).normal(size=(1, 3, 1, 4)).astype(np.float32)  # batch, tokens, heads, width
mask = np.array([[True, False, False], [False, False, False], [True, True, True]])
ROW = 1

heads_first = torch.from_numpy(x).transpose(1, 2)
qkv = (heads_first,) * 3
by_torch = F.scaled_dot_product_attention(*qkv, attn_mask=torch.from_numpy(mask))[0, 0].numpy()
by_jax = np.asarray(jax.nn.dot_product_attention(x, x, x, mask=jnp.asarray(mask)[None, None]))[0, :, 0]
bias = jnp.where(jnp.asarray(mask), 0.0, -jnp.inf)[None, None]
by_bias = np.asarray(jax.nn.dot_product_attention(x, x, x, bias=bias))[0, :, 0]

torch.manual_seed(0)
module = torch.nn.MultiheadAttention(4, 1, batch_first=True).eval()
tokens, blocked = torch.from_numpy(x[:, :, 0]), torch.from_numpy(~mask)
with torch.no_grad():
    weights, none = (
        module(tokens, tokens, tokens, attn_mask=blocked, need_weights=need)[0][0, ROW].numpy() for need in (True, False)
    )

print("torch", torch.__version__, "jax", jax.__version__)
print("torch sdpa:                   ", by_torch[ROW])
print("jax, boolean mask:            ", by_jax[ROW], "mean of all values:", x.mean(1)[0, 0])
print("jax, bias of -inf:            ", by_bias[ROW])
print("MultiheadAttention, weights:  ", weights)
print("MultiheadAttention, no weights:", none)
check(np.allclose(by_torch[[0, 2]], by_jax[[0, 2]], atol=1e-5), "the other rows no longer agree")
check((by_torch[ROW] == 0).all(), "torch's answer is no longer zero")
check(np.allclose(by_jax[ROW], x.mean(1)[0, 0], atol=1e-5), "jax's answer is no longer the mean of all values")
check(np.isnan(by_bias[ROW]).all(), "jax's answer with a bias is no longer NaN")
check(np.isnan(weights).all(), "MultiheadAttention with weights is no longer NaN")
check(np.isfinite(none).all(), "MultiheadAttention without weights is no longer finite")
PYTHON
