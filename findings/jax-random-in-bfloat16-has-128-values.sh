#!/usr/bin/env bash
# Expected: jax.random.normal with dtype bfloat16 draws as with float32 and rounds, and jax.random.bernoulli with a
#   bfloat16 probability is true that often.
# Happens: Both begin with a uniform number of 7 bits. A million normal numbers take 128 different values, none beyond
#   2.9 (float32: 4.6), with a mean of -0.012. And the smallest probability that bernoulli can have is 1/128: 0.001 is
#   true nearly eight times as often, 0.0001 nearly eighty times.
# Versions: jax==0.10.2, jaxlib==0.10.2, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: Initialisers called with param_dtype bfloat16, the noise of diffusion models, and masks of rare events
#   whose rate was computed in bfloat16 (rate * jnp.bfloat16(...)) are not what they say.
# Source: jax#28017 and jax#26974 discuss the resolution of jax.random.uniform, #30879 the same for categorical.
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


SIZE = 1 << 20
key = jax.random.key(0)


def normal(kind):
    drawn = jax.random.normal(key, (SIZE,), kind).astype(jnp.float32)
    return int(jnp.unique(drawn).size), float(jnp.abs(drawn).max()), float(drawn.mean())


def rate(probability, kind):
    return float(jax.random.bernoulli(key, jnp.asarray(probability, kind), (SIZE,)).astype(jnp.float32).mean())


narrow, wide = normal(jnp.bfloat16), normal(jnp.float32)
rates = {p: (rate(p, jnp.bfloat16), rate(p, jnp.float32)) for p in (0.001, 0.0001)}
print("jax", jax.__version__)
print("a million normal numbers: different values, largest, mean: bfloat16", narrow, "float32", wide)
print("how often bernoulli is true, in bfloat16 and in float32:", rates)
check(narrow[0] == 128, "bfloat16's normal no longer has 128 values")
check(narrow[1] < 3 and wide[1] > 4, "bfloat16's normal no longer ends below 3")
check(narrow[2] < -0.01 and abs(wide[2]) < 0.003, "bfloat16's normal no longer has a mean below zero")
check(all(0.007 < narrow < 0.009 for narrow, _ in rates.values()), "bernoulli in bfloat16 no longer stops at 1/128")
check(abs(rates[0.001][1] - 0.001) < 0.0002, "bernoulli in float32 is no longer right")
PYTHON
