#!/usr/bin/env bash
# Expected: nnx.Embed(dtype=bfloat16, param_dtype=float32) is mixed precision: the gradient of the float32 table is a
#   float32 sum over the batch.
# Happens: The table is cast to bfloat16 before the lookup, so the lookup's gradient is added up row by row in
#   bfloat16, and the cast to float32 comes after. A token that occurs 1,000 times with gradient 1 gets 256.
#   nnx.Linear with the same types gives 1,000.
# Versions: jax==0.10.2, jaxlib==0.10.2, flax==0.12.8, optax==0.2.8, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: The gradients of the most frequent tokens (padding, spaces, 'the') are cut, the more the larger the batch,
#   with a dtype of float32 on what the optimizer sees. torch's autocast leaves the embedding in float32.
# Source: the source of flax.nnx.Embed promotes the table's dtype before jnp.take; openxla/xla#26371 shows that this
#   scatter runs in bfloat16 on GPUs as well.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 optax==0.2.8 numpy==2.4.6 ml_dtypes==0.6.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import flax
import flax.nnx as nnx
import jax
import jax.numpy as jnp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


TOKENS = 1000
mixed = dict(dtype=jnp.bfloat16, param_dtype=jnp.float32, rngs=nnx.Rngs(0))


def gradient(module, inputs):
    def total(module):
        return module(inputs).astype(jnp.float32).sum()

    return jax.tree.leaves(nnx.grad(total)(module))


(table,) = gradient(nnx.Embed(4, 1, **mixed), jnp.zeros(TOKENS, jnp.int32))
(exact,) = gradient(nnx.Embed(4, 1, **{**mixed, "dtype": jnp.float32}), jnp.zeros(TOKENS, jnp.int32))
(kernel,) = gradient(nnx.Linear(1, 1, use_bias=False, **mixed), jnp.ones((TOKENS, 1)))
print("jax", jax.__version__, "flax", flax.__version__)
print("a token that occurs 1,000 times: gradient", float(table[0, 0]), table.dtype)
print("the same with dtype float32:", float(exact[0, 0]))
print("a Linear with the same types and 1,000 rows:", float(kernel[0, 0]), kernel.dtype)
check(table.dtype == jnp.float32, "the gradient is no longer float32")
check(float(exact[0, 0]) == TOKENS, "in float32 the gradient is no longer 1,000")
check(float(kernel[0, 0]) == TOKENS, "Linear's gradient is no longer 1,000")
check(float(table[0, 0]) == 256, "the gradient of a frequent token no longer stops at 256")
PYTHON
