#!/usr/bin/env bash
# Expected: AveragedModel(use_buffers=True) with an exponential average lets float buffers follow slowly, and gives
#   integer and boolean buffers a sensible value: the newest, or an error.
# Happens: They are averaged like floats and cut back to their type. A boolean that was ever true stays true, for
#   0.9 * True + 0.1 * False is 0.9, which is true. An integer stops short by up to decay / (1 - decay): 41 where the
#   model stands at 50, however long one waits; with a decay of 0.999 it never leaves its first value.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A pruning mask is never cleared in the averaged model, which evaluates weights that the trained model has cut;
#   counters of tokens or codebook use are wrong for good. The float part of the same model converges.
# Source: none found; the documentation says that buffers are averaged too.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("mask", torch.tensor([True, True]))


def averaged(decay):
    model = Model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    for step in range(500):
        model.mean.fill_(min(step, 50))
        model.count.fill_(min(step, 50))
        model.mask[0] = step < 5
        average.update_parameters(model)
    return average.module


slow, slower = averaged(0.9), averaged(0.999)
print("torch", torch.__version__)
print("the model stands at 50, 50 and [False, True]; its average, after 500 updates:")
print("decay 0.9  ", round(slow.mean.item(), 2), slow.count.item(), slow.mask.tolist())
print("decay 0.999", round(slower.mean.item(), 2), slower.count.item(), slower.mask.tolist())
check(abs(slow.mean.item() - 50) < 0.1, "the float buffer no longer converges")
check(slow.count.item() == 41, "the integer buffer no longer stops short")
check(slower.count.item() == 0, "the integer buffer now moves with a decay of 0.999")
check(slow.mask.tolist() == slower.mask.tolist() == [True, True], "the mask is now cleared")
PYTHON
