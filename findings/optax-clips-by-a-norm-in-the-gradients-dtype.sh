#!/usr/bin/env bash
# Expected: optax.clip_by_global_norm(1.0) leaves a gradient of norm 1 if it was longer, whatever its dtype, within
#   rounding: a norm is one number, and could be float32.
# Happens: The squares are added up in the gradients' dtype. In float16 four entries of 200 have an infinite norm, and
#   the clipped gradient is exactly zero; adaptive_grad_clip makes NaN of it. In bfloat16 the sum over tensors stops
#   when a tensor's square is too small to be added: 5,000 equal tensors have norm 4 instead of 17.7, and after
#   clipping to 1 they have norm 4.4.
# Versions: jax==0.10.2, jaxlib==0.10.2, optax==0.2.8, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: A step with loss scaling in float16 is skipped without a NaN or a message that a loss scale could react to;
#   with bfloat16 gradients the limit is not kept, the more tensors a model has. torch's clip_grad_norm_ takes the
#   norm of the tensors' norms and gives 400 for the first case.
# Source: AI-Hypercomputer/maxtext#5143 works around it for bfloat16; none found in optax.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 numpy==2.4.6 ml_dtypes==0.6.0
cd "$work"

JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'PYTHON'
import jax.numpy as jnp
import numpy as np
import optax


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def updates(transformation, gradients):
    return transformation.update(gradients, transformation.init(gradients), gradients)[0]


def true_norm(gradients):
    return np.sqrt(sum(np.square(np.asarray(each, np.float64)).sum() for each in gradients.values()))


print("optax", optax.__version__)
seen = {}
for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
    large = {"weight": jnp.full(4, 200, dtype)}
    many = {str(index): jnp.full((4, 4), 2**-4, dtype) for index in range(5000)}
    clip = optax.clip_by_global_norm(1.0)
    adaptive = updates(optax.adaptive_grad_clip(0.1), large)
    seen[dtype] = [
        float(optax.global_norm(large)),
        true_norm(updates(clip, large)),
        float(optax.global_norm(many)),
        true_norm(updates(clip, many)),
        true_norm(adaptive),
    ]
    print(dtype.__name__, "| four times 200: norm", seen[dtype][0], "clipped to", round(seen[dtype][1], 3), end=" ")
    print("adaptively to", round(seen[dtype][4], 3), "| 5,000 tensors, norm 17.678:", round(seen[dtype][2], 3), end=" ")
    print("clipped to", round(seen[dtype][3], 3))
check(np.allclose(seen[jnp.float32], [400, 1, 17.678, 1, 40], rtol=1e-2), "float32 is no longer right")
check(np.allclose(seen[jnp.bfloat16][:2], [400, 1], rtol=1e-2), "one bfloat16 tensor is no longer right")
check(seen[jnp.bfloat16][2] == 4 and seen[jnp.bfloat16][3] > 4, "bfloat16 tensors are now added up")
check(np.isinf(seen[jnp.float16][0]) and seen[jnp.float16][1] == 0, "float16 no longer overflows to zero")
check(np.isnan(seen[jnp.float16][4]), "adaptive_grad_clip is no longer NaN")
check(1.5 < seen[jnp.float16][3] < 1.7, "float16 tensors are now added up")
PYTHON
