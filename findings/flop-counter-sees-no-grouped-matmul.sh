#!/usr/bin/env bash
# Expected: FlopCounterMode counts torch.nn.functional.grouped_mm as it counts the matmuls that it stands for.
# Happens: It counts nothing, forward or backward: its table of formulas has no row for the operator (nor for the scaled
#   one). The same products as bmm are counted.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: grouped_mm is how a mixture of experts is written today, and the experts are most of its FLOPs. An MFU that is
#   computed from this counter leaves them out, and no warning says so.
# Source: seen while chapter 16 was written; torch 2.11.0, 2.14.1 and 2.15.0 do the same.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import grouped_mm
from torch.utils.flop_counter import FlopCounterMode, flop_registry


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def flops(product):
    x = torch.randn(64, 32, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(4, 32, 16, dtype=torch.bfloat16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        product(x, w).square().sum().backward()
    return counter.get_total_flops()


ends = torch.tensor([16, 32, 48, 64], dtype=torch.int32)
grouped = flops(lambda x, w: grouped_mm(x, w, offs=ends))
batched = flops(lambda x, w: torch.bmm(x.view(4, 16, 32), w))
by_hand = 3 * 2 * 64 * 32 * 16
rows = [str(operator) for operator in flop_registry if "grouped" in str(operator)]
print("torch", torch.__version__, "| forward and backward of four products of 16 x 32 x 16, by hand:", by_hand)
print("grouped_mm:", grouped, "| the same as bmm:", batched, "| formulas for grouped products:", rows)
check(grouped == 0 and rows == [], "grouped products are now counted")
check(batched == by_hand, "bmm is counted otherwise")
PYTHON
