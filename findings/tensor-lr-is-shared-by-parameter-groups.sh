#!/usr/bin/env bash
# Expected: lr=torch.tensor(...), recommended so that a compiled optimizer does not recompile, behaves as a float
#   does: each parameter group has its own learning rate, and LambdaLR scales each by its own function.
# Happens: All groups hold the very same tensor, and schedulers write it in place. The last group's rate wins for all
#   groups. With a float each group gets its own.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: Groups with their own schedule (a frozen-then-thawed encoder, a slower embedding) all train at the last
#   group's rate, as soon as somebody turns the float into a tensor to save recompilations. get_last_lr shows equal
#   numbers, no error.
# Source: pytorch#163103 (open) lists related aliasing of tensor learning rates in schedulers.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.optim.lr_scheduler import LambdaLR


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def rates(lr):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    scheduler = LambdaLR(optimizer, [lambda step: 0.5**step, lambda step: 0.1**step])
    optimizer.step()
    scheduler.step()
    return [round(float(group["lr"]), 4) for group in optimizer.param_groups]


plain, tensor = rates(1.0), rates(torch.tensor(1.0))
print("torch", torch.__version__)
print("after one step of halving and of a tenth, lr a float:", plain)
print("lr a tensor:", tensor)
check(plain == [0.5, 0.1], "a float no longer gives each group its own rate")
check(tensor == [0.1, 0.1], "a tensor no longer gives all groups the last one's rate")
PYTHON
