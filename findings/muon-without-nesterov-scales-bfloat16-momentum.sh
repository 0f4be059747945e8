#!/usr/bin/env bash
# Expected: Muon keeps a momentum buffer that adds up gradients, in bfloat16 as in float32; orthogonalising works on a
#   copy, and `nesterov` changes the update and not the buffer.
# Happens: With nesterov=False and bfloat16 parameters the buffer itself is divided by its norm at every step. It always
#   has norm 1, so a gradient of norm 100 wipes out the past and one of norm 0.001 is never felt. float32 parameters, or
#   nesterov=True, are right.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: The momentum is gone or frozen, depending on the scale of the loss, which Muon is thought not to feel. The
#   steps have the right size, so no curve tells; checkpoints hold the scaled buffer.
# Source: pytorch#194664 describes the aliasing and copies first, after this version.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def norms(dtype, nesterov, scale):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(8, 4).to(dtype))
    optimizer = torch.optim.Muon([weight], lr=0.1, weight_decay=0, momentum=0.9, nesterov=nesterov)
    gradient = torch.randn(8, 4).to(dtype) * scale
    seen = []
    for _ in range(4):
        weight.grad = gradient.clone()
        optimizer.step()
        seen.append(round(optimizer.state[weight]["momentum_buffer"].float().norm().item(), 2))
    return seen


print("torch", torch.__version__)
print("norm of the momentum, nesterov off: float32 ", norms(torch.float32, False, 100))
print("norm of the momentum, nesterov off: bfloat16", norms(torch.bfloat16, False, 100))
print("norm of the momentum, nesterov on:  bfloat16", norms(torch.bfloat16, True, 100))
wide, narrow = norms(torch.float32, False, 100), norms(torch.bfloat16, False, 100)
check(wide[0] > 50 and wide[3] > 3 * wide[0], "momentum in float32 no longer adds up")
check(norms(torch.bfloat16, True, 100)[3] > 150, "with nesterov bfloat16 no longer adds up")
check(all(abs(norm - 1) < 0.02 for norm in narrow), "the bfloat16 buffer is no longer divided by its norm")
PYTHON
