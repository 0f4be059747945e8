#!/usr/bin/env bash
# Expected: torchinfo's "mult-adds" of a Linear layer grow with all positions it is applied to, as those of a convolution
#   grow with the image; a table lookup multiplies nothing.
# Happens: A Linear layer counts its parameters times the first dimension only. A sequence of 512 tokens costs what one
#   token costs. An Embedding counts its whole table once for each sequence.
# Versions: torch==2.13.0, numpy==2.4.6, torchinfo==1.8.0
# Matters: A transformer's cost does not change with the sequence length, and the vocabulary is most of it. The same data
#   as (batch * length, width) gives 512 times the number.
# Source: TylerYep/torchinfo#77; the fix for Linear, #318, is in no release so far.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 torchinfo==1.8.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
import torchinfo


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def mult_adds(layer, data):
    return torchinfo.summary(layer, input_data=data, verbose=0).total_mult_adds


linear = torch.nn.Linear(64, 64, bias=False)
pointwise = torch.nn.Conv1d(64, 64, 1, bias=False)
table = torch.nn.Embedding(50_000, 64)
one, long = mult_adds(linear, torch.zeros(4, 1, 64)), mult_adds(linear, torch.zeros(4, 512, 64))
flat = mult_adds(linear, torch.zeros(4 * 512, 64))
convolution = mult_adds(pointwise, torch.zeros(4, 64, 512))
lookup = mult_adds(table, torch.zeros(4, 512, dtype=torch.long))
print("torch", torch.__version__, "torchinfo", torchinfo.__version__)
print("Linear on (4, 1, 64):   ", one)
print("Linear on (4, 512, 64): ", long)
print("Linear on (2048, 64):   ", flat)
print("the same as a Conv1d:   ", convolution)
print("Embedding on (4, 512):  ", lookup)
check(flat == convolution == 4 * 512 * 64 * 64, "a flat batch or a convolution is no longer counted in full")
check(long == one == 4 * 64 * 64, "the sequence length now counts")
check(lookup == 4 * 50_000 * 64, "a lookup no longer counts the table")
PYTHON
