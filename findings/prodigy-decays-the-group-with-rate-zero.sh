#!/usr/bin/env bash
# Expected: Prodigy and the D-Adaptation optimizers refuse groups with different learning rates, except 0, which is how
#   to freeze a group: its weights then stay.
# Happens: Prodigy gives such a group no gradient step and the full weight decay, which follows its estimate d times the
#   other groups' rate: after 200 steps the frozen layer has decayed to 1e-13. DAdaptAdam with decouple=True does the
#   same. DAdaptLion trains the group as if its rate were the others'. DAdaptSGD leaves it alone.
# Versions: torch==2.13.0, numpy==2.4.6, prodigyopt==1.1.2, dadaptation==3.2
# Matters: The frozen encoder of a fine-tuning run is wiped out, and the group's logged learning rate is 0 throughout.
# Source: none found; the error message for other rates names 0 as the value that is supported.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 prodigyopt==1.1.2 dadaptation==3.2
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import contextlib
import io

import dadaptation
import prodigyopt
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def remaining(make):
    torch.manual_seed(0)
    frozen, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    with contextlib.redirect_stdout(io.StringIO()):
        optimizer = make([{"params": frozen.parameters(), "lr": 0.0}, {"params": head.parameters()}])
    before = frozen.weight.detach().clone()
    for step in range(200):
        data = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (head(frozen(data)).squeeze() - data.sum(1)).square().mean().backward()
        optimizer.step()
    check(optimizer.param_groups[0]["lr"] == 0, "the group's rate is no longer 0")
    return (frozen.weight.norm() / before.norm()).item(), torch.equal(frozen.weight, before)


found = {
    "Prodigy, weight_decay=0.1": remaining(lambda groups: prodigyopt.Prodigy(groups, weight_decay=0.1)),
    "DAdaptAdam, the same": remaining(lambda groups: dadaptation.DAdaptAdam(groups, weight_decay=0.1, decouple=True)),
    "DAdaptLion, no decay": remaining(lambda groups: dadaptation.DAdaptLion(groups)),
    "DAdaptSGD, no decay": remaining(lambda groups: dadaptation.DAdaptSGD(groups)),
}
print("torch", torch.__version__, "| the norm of a layer at learning rate 0, to that before, after 200 steps:")
for name, (ratio, _) in found.items():
    print(f"{name:26}{ratio:.3g}")
prodigy, adam, lion, sgd = found.values()
check(sgd[1], "DAdaptSGD no longer leaves the group alone")
check(prodigy[0] < 0.1, "Prodigy no longer decays the frozen group")
check(adam[0] < 0.1, "DAdaptAdam no longer decays the frozen group")
check(not lion[1] and abs(lion[0] - 1) > 0.1, "DAdaptLion no longer trains the frozen group")
PYTHON
