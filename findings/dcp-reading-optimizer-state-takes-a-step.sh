#!/usr/bin/env bash
# Expected: get_optimizer_state_dict reads an optimizer's state. On an optimizer that has not stepped yet, it changes
#   nothing.
# Happens: It makes the state exist by taking a step with zero gradients and lr 0, and the step counter stays at 1.
#   Adam's first real update is then corrected for bias as if it were the second: the first step is a quarter smaller,
#   and the run goes another way than the one that was not read.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: Whoever builds the target for dcp.load this way and then finds no checkpoint, or saves at step 0, trains
#   another run than without the call, with no message. Adam, AdamW, NAdam, RAdam, Adamax, Adafactor and Rprop are
#   hit; SGD, RMSprop and Adagrad are not.
# Source: pytorch#164929 (open); torchtitan#4382 works around it.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import copy

import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def first_step(optimizer, weight):
    before = weight.detach().clone()
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    return (before - weight.detach()).abs().max().item()


torch.manual_seed(0)
read = torch.nn.Linear(4, 4, bias=False)
unread = copy.deepcopy(read)
kinds = dict(lr=0.1, weight_decay=0.0)
optimizers = torch.optim.AdamW(read.parameters(), **kinds), torch.optim.AdamW(unread.parameters(), **kinds)

state = get_optimizer_state_dict(read, optimizers[0])
counter = state["state"]["weight"]["step"].item()
sizes = first_step(optimizers[0], read.weight), first_step(optimizers[1], unread.weight)

print("torch", torch.__version__)
print("step counter after the read, before any training:", counter)
print("size of the first AdamW step, read and not read:", sizes)
check(counter == 1, "reading no longer advances the counter")
check(abs(sizes[1] - 0.1) < 1e-4, "AdamW's first step is no longer lr")
check(sizes[0] < 0.8 * sizes[1], "the first step after a read is now the same as without it")
PYTHON
