#!/usr/bin/env bash
# Expected: numpy sums bfloat16 (ml_dtypes, and so any jax array handed to numpy) as it sums float16: pairwise and
#   with enough precision that the mean of 1,000 ones is 1.
# Happens: It adds one by one in bfloat16. The sum of ones stops at 256, since 256 + 1 is 256, so their mean is
#   0.2559; var is wrong by 77 %. max, dot and percentile are right.
# Versions: numpy==2.4.6, ml_dtypes==0.6.0
# Matters: Statistics of weights and activations pulled to the host (np.asarray(x).mean(), np.var, np.sum) are wrong
#   in silence for any tensor of more than a few hundred elements, while float16 is right.
# Source: ml_dtypes#63 (closed: a limit of how numpy treats user types).
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


ones = {kind: np.ones(1000, kind) for kind in (ml_dtypes.bfloat16, np.float16)}
means = {np.dtype(kind).name: float(x.mean()) for kind, x in ones.items()}
ramp = np.arange(1000).astype(ml_dtypes.bfloat16)
variances = float(np.var(ramp)), float(np.var(ramp.astype(np.float32)))
print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
print("mean of 1,000 ones:", means)
print("variance of 0..999 in bfloat16, and of the same numbers in float32:", variances)
check(means["float16"] == 1.0, "float16's mean is no longer 1")
check(float(ones[ml_dtypes.bfloat16].sum()) == 256, "the sum of bfloat16 ones no longer stops at 256")
check(means["bfloat16"] < 0.26, "bfloat16's mean is no longer wrong")
check(abs(variances[0] / variances[1] - 1.77) < 0.02, "the variance is no longer wrong by 77 %")
PYTHON
