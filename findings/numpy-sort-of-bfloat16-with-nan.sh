#!/usr/bin/env bash
# Expected: np.sort puts NaN last, for bfloat16 (ml_dtypes, and so any jax array handed to numpy) as for float32.
# Happens: NaN stays where it is and splits the array: what stands before and behind it is not in order. argsort does
#   the same, and median and quantile, which give NaN for float32, give some number.
# Versions: numpy==2.4.6, ml_dtypes==0.6.0
# Matters: Percentiles of activations, top-k on the host and outlier cuts are taken from an array that is not sorted.
#   One NaN is the very case in which somebody looks at such statistics.
# Source: numpy's documentation of sort promises NaN last for its real and complex types; for user types it is left to
#   their comparison, which ml_dtypes makes false for NaN.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def in_order(kind):
    values = np.sort(np.array([3, np.nan, 1, 2], kind)).astype(np.float32)
    return values.tolist()


def places(kind):
    return np.argsort(np.array([3, np.nan, 1, 2], kind)).tolist()


print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
print("np.sort of 3, nan, 1, 2 in float32: ", in_order(np.float32))
print("np.sort of 3, nan, 1, 2 in bfloat16:", in_order(ml_dtypes.bfloat16))
medians = [float(np.median(np.array([1, 2, np.nan, 4, 5, 6, 7], kind))) for kind in (np.float32, ml_dtypes.bfloat16)]
print("median of seven numbers with one NaN, float32 and bfloat16:", medians)
check(in_order(np.float32)[:3] == [1, 2, 3], "float32 is no longer sorted with NaN last")
check(places(np.float32) == [2, 3, 0, 1], "float32's argsort is no longer in order")
found = in_order(ml_dtypes.bfloat16)
check(found[0] == 3 and np.isnan(found[1]) and found[2:] == [1, 2], "bfloat16 is no longer left unsorted around NaN")
check(places(ml_dtypes.bfloat16) == [0, 1, 2, 3], "bfloat16's argsort no longer stays as it was")
check(np.isnan(medians[0]), "float32's median is no longer NaN")
check(np.isfinite(medians[1]), "bfloat16's median is now NaN")
PYTHON
