#!/usr/bin/env bash
# Expected: float8_e8m0fnu, the scale of MX formats, holds powers of two. What it cannot hold (zero, negatives) is
#   treated alike by torch and ml_dtypes.
# Happens: Zero becomes 2^-127 in torch and NaN in ml_dtypes (so in jax and numpy). A negative value loses its sign in
#   torch (-4 is 4) and is NaN in ml_dtypes.
# Versions: torch==2.13.0, numpy==2.4.6, ml_dtypes==0.6.0
# Matters: The scale of a block of zeros (padding, a masked head, a fresh LoRA matrix) is computed as zero. One
#   library gives a block of zeros, the other a block of NaN; and a sign error in a scale, which NaN would show,
#   passes in torch.
# Source: none found; the OCP MX specification has no zero and no sign in E8M0 and leaves the conversion open.
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


values = np.array([4.0, 0.0, -4.0], np.float32)
by_torch = torch.from_numpy(values).to(torch.float8_e8m0fnu).float().numpy()
by_ml_dtypes = values.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
block = np.zeros(4, np.float32)
print("torch", torch.__version__, "ml_dtypes", ml_dtypes.__version__)
print("values   ", values)
print("torch    ", by_torch)
print("ml_dtypes", by_ml_dtypes)
print("a block of zeros times its scale:", block * by_torch[1], block * by_ml_dtypes[1])
check(by_torch[0] == by_ml_dtypes[0] == 4, "the two no longer agree on 4")
check(by_torch[1] == np.float32(2.0**-127), "torch no longer makes zero 2^-127")
check(np.isnan(by_ml_dtypes[1]), "ml_dtypes no longer makes zero NaN")
check(by_torch[2] == 4, "torch no longer drops the sign")
check(np.isnan(by_ml_dtypes[2]), "ml_dtypes no longer makes a negative value NaN")
PYTHON
