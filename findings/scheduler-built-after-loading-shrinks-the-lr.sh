#!/usr/bin/env bash
# Expected: To resume, one may load the optimizer, build the warmup-and-cosine scheduler on it, and load the
#   scheduler's state: all that was saved has been loaded.
# Happens: Building the scheduler multiplies the learning rate just loaded by the warmup's start factor, and
#   SequentialLR.load_state_dict does not restore it. The cosine is computed from the current value, so the rate stays
#   ten times too small until the end.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A resumed run hardly learns, with a curve of the right shape. With the optimizer loaded last (or with
#   LambdaLR, whose rate comes from base_lrs) it is right, so the same code is right with one scheduler and wrong with
#   another.
# Source: pytorch#119168 (closed) and #65342; the warning in the documentation of Optimizer.load_state_dict.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import copy

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def warm_cosine(optimizer):
    parts = [LinearLR(optimizer, 0.1, 1.0, total_iters=4), CosineAnnealingLR(optimizer, 8)]
    return SequentialLR(optimizer, parts, [4])


def halving(optimizer):
    return LambdaLR(optimizer, lambda step: 0.5**step)


def new():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def rates(optimizer, scheduler, steps):
    found = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        found.append(round(optimizer.param_groups[0]["lr"], 4))
    return found


def resumed(build, order):
    whole = new()
    scheduler = build(whole)
    rates(whole, scheduler, 6)
    files = copy.deepcopy(whole.state_dict()), copy.deepcopy(scheduler.state_dict())
    again = new()
    if order == "optimizer, build, scheduler":
        again.load_state_dict(files[0])
        schedule = build(again)
        schedule.load_state_dict(files[1])
    else:
        schedule = build(again)
        schedule.load_state_dict(files[1])
        again.load_state_dict(files[0])
    return rates(whole, scheduler, 4), rates(again, schedule, 4)


print("torch", torch.__version__)
found = {}
for build in (warm_cosine, halving):
    for order in ("optimizer, build, scheduler", "build, scheduler, optimizer"):
        found[build, order] = resumed(build, order)
        print(f"{build.__name__}, {order}: goes on {found[build, order][0]}, resumed {found[build, order][1]}")
for (build, order), (on, again) in found.items():
    if build is warm_cosine and order == "optimizer, build, scheduler":
        check(all(abs(b - 0.117 * a) < 0.01 for a, b in zip(on, again)), "the rate after resuming is no longer a tenth")
    else:
        check(on == again, f"{build.__name__}, {order} no longer resumes at the same rate")
PYTHON
