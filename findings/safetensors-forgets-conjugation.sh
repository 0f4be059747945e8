#!/usr/bin/env bash
# Expected: What safetensors saves is what it loads: x.conj() comes back as x.conj().
# Happens: torch marks a conjugate by one bit of the tensor and leaves the numbers alone; safetensors writes the
#   numbers and not the bit. The imaginary parts come back with the other sign. A negative view loses its minus the
#   same way. torch.save keeps both.
# Versions: torch==2.13.0, numpy==2.4.6, safetensors==0.8.0
# Matters: Complex weights and buffers exist in this field: rotary tables, state-space models, spectral layers. No
#   error, no warning, and every magnitude is right.
# Source: safetensors#831 (open).
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 safetensors==0.8.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import io

import safetensors
import safetensors.torch
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def by_torch(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file)


def by_safetensors(tensor):
    return safetensors.torch.load(safetensors.torch.save({"x": tensor}))["x"]


rotary = torch.polar(torch.ones(3), torch.tensor([0.5, 1.0, 1.5])).conj()
print("torch", torch.__version__, "safetensors", safetensors.__version__)
print("saved: ", rotary)
print("loaded:", by_safetensors(rotary))
check(torch.equal(by_torch(rotary), rotary), "torch.save no longer keeps the conjugate")
check(torch.equal(by_safetensors(rotary.resolve_conj()), rotary), "a resolved conjugate no longer comes back")
check(torch.equal(by_safetensors(rotary), rotary.conj()), "safetensors no longer drops the conjugate")
PYTHON
