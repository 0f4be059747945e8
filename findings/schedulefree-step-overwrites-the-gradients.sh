#!/usr/bin/env bash
# Expected: An optimizer reads the gradients. After step() and before zero_grad() they are still there, as with every
#   optimizer in torch.optim, for logging their norm or for a second look.
# Happens: AdamWScheduleFree overwrites them with its normalised update, and optimi's AdamW does so when the weights are
#   bfloat16 (where it has Kahan summation) and not when they are float32. torch's AdamW leaves them.
# Versions: torch==2.13.0, numpy==2.4.6, schedulefree==1.4.1, torch-optimi==0.3.3, packaging==26.4
# Matters: A gradient norm logged after the step is the same near-constant for any loss, or shrinks with the learning
#   rate; a spike that the log was made for does not show. Two optimizers that step on one set of gradients differ.
# Source: none found; comments in schedulefree's source speak of reusing the buffer to save memory.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 schedulefree==1.4.1 torch-optimi==0.3.3 packaging==26.4
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import optimi
import schedulefree
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def norm_after(make, dtype, norm):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(100).to(dtype))
    optimizer = make([weight], lr=1e-3)
    if hasattr(optimizer, "train"):
        optimizer.train()
    direction = torch.nn.functional.normalize(torch.randn(100), dim=0)
    weight.grad = (direction * norm).to(dtype)
    optimizer.step()
    return weight.grad.float().norm().item()


print("torch", torch.__version__, "| norm of the gradient after step(), before it: 0.01, 1, 100")
found = {}
for make in (torch.optim.AdamW, schedulefree.AdamWScheduleFree, optimi.AdamW):
    for dtype in (torch.float32, torch.bfloat16):
        key = make.__name__ + " of " + make.__module__.split(".")[0] + ", " + str(dtype)[6:]
        found[key] = [round(norm_after(make, dtype, norm), 3) for norm in (0.01, 1.0, 100.0)]
        print(f"{key:44}", found[key])
torch_wide, torch_narrow, free, free_narrow, wide, narrow = found.values()
check(torch_wide == wide == [0.01, 1, 100], "torch or optimi in float32 no longer leaves the gradient alone")
check(abs(torch_narrow[2] - 100) < 1, "torch in bfloat16 no longer leaves the gradient alone")
check(all(abs(value - 10) < 0.2 for value in free + free_narrow), "schedulefree no longer overwrites the gradient")
check(max(narrow) < 0.1, "optimi in bfloat16 no longer overwrites the gradient")
PYTHON
