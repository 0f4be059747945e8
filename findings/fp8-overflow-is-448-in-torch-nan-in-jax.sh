#!/usr/bin/env bash
# Expected: float8_e4m3fn is one format. A value beyond its range, 500 or infinity, becomes NaN in torch as in
#   ml_dtypes (jax's and numpy's types), or saturates in both.
# Happens: torch 2.13 saturates (older releases gave NaN): 500, 1e9 and even infinity become 448. ml_dtypes gives NaN
#   for all three. And torch does so for this one format: float8_e5m2 still overflows to infinity and float8_e4m3fnuz
#   to NaN.
# Versions: torch==2.13.0, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: A check of isfinite after the cast, which used to find a bad scale or an exploded gradient, finds nothing
#   in torch any more; the same weights quantised by jax and by torch differ in exactly the outliers; a switch to e5m2
#   brings the infinities back.
# Source: pytorch#178817 (the change to saturation); ao#1912 and ao#4359.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 ml_dtypes==0.6.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


values = np.array([3.3, 500.0, 1e9, np.inf], np.float32)
found = {}
for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"):
    by_torch = torch.from_numpy(values).to(getattr(torch, name)).float().numpy()
    by_ml_dtypes = values.astype(getattr(ml_dtypes, name)).astype(np.float32)
    found[name] = by_torch, by_ml_dtypes
print("torch", torch.__version__, "ml_dtypes", ml_dtypes.__version__)
print("values", values)
for name, (by_torch, by_ml_dtypes) in found.items():
    print(f"{name:16} torch {by_torch}  ml_dtypes {by_ml_dtypes}")
ours, theirs = found["float8_e4m3fn"]
check(ours[0] == theirs[0] == 3.25, "the two no longer agree within the range")
check((ours[1:] == 448).all(), "torch no longer saturates e4m3fn")
check(np.isnan(theirs[1:]).all(), "ml_dtypes no longer gives NaN for e4m3fn")
ours, theirs = found["float8_e5m2"]
check(ours[1] == theirs[1] == 512, "the two no longer agree within e5m2's range")
check(np.isinf(ours[2:]).all() and np.isinf(theirs[2:]).all(), "e5m2 no longer overflows to infinity in both")
check(np.isnan(found["float8_e4m3fnuz"][0][1:]).all(), "torch no longer gives NaN for e4m3fnuz")
PYTHON
