#!/usr/bin/env bash
# Expected: jnp.mean and jnp.sum take more precision than the input has, as they do for bfloat16 and float16: the mean
#   of a float8 array of 0.5 is 0.5.
# Happens: For float8 they add in float8. On a CPU the mean of 100 halves is 0.34375 in e4m3fn and 0.15625 in e5m2,
#   and of 1,000 halves NaN, since the sum leaves the range. bfloat16 is right at every size.
# Versions: jax==0.10.2, jaxlib==0.10.2, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: A mean or a sum of float8 weights or activations, taken to check or to calibrate them, is wrong by a third
#   or more before it is NaN.
# Source: jax#17792 made the mean of 16-bit floats accumulate in float32; float8 is left out.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 ml_dtypes==0.6.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import jax
import jax.numpy as jnp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def mean(kind, count):
    return float(jnp.full(count, 0.5, kind).mean())


kinds = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16)
found = {(kind.dtype.name, count): mean(kind, count) for kind in kinds for count in (10, 100, 1000)}
print("jax", jax.__version__)
for (kind, count), value in found.items():
    print(f"mean of {count} halves in {kind}: {value}")
check(all(found["bfloat16", count] == 0.5 for count in (10, 100, 1000)), "bfloat16's mean is no longer right")
check(found["float8_e4m3fn", 100] != 0.5, "the mean of 100 halves in e4m3fn is now right")
check(not abs(found["float8_e4m3fn", 1000] - 0.5) < 0.1, "the mean of 1,000 halves in e4m3fn is now near 0.5")
PYTHON
