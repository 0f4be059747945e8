#!/usr/bin/env bash
# Expected: torch_save_to_dcp and then dcp_to_torch_save give a file that loads as the first one did.
# Happens: The second file names the optimizer's entries '0', '1' where they were 0, 1. Optimizer.load_state_dict
#   accepts it, keeps the moments under those strings, where no parameter finds them, and the next step starts Adam
#   from nothing.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: Whoever turns a sharded checkpoint into one file to go on elsewhere (or tests the round trip by loading
#   without an error) loses the moments and the step counter in silence.
# Source: pytorch#153842 tells of the same integer keys for MultiStepLR's milestones.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).square().sum().backward()
    optimizer.step()


def loaded(file):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step(model, optimizer)
    return optimizer.state[model.weight]["step"].item(), sorted({type(key).__name__ for key in optimizer.state})


torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(5):
    step(model, optimizer)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "before.pt")
torch_save_to_dcp("before.pt", "sharded")
dcp_to_torch_save("sharded", "after.pt")

before, after = loaded("before.pt"), loaded("after.pt")
print("torch", torch.__version__)
keys = [list(torch.load(file)["optimizer"]["state"]) for file in ("before.pt", "after.pt")]
print("keys of the state, before and after:", keys)
print("the step counter after one more step, from the first file:", before)
print("and from the file that came back:", after)
check(before == (6, ["Parameter"]), "the first file no longer resumes at step 6")
check(after == (1, ["Parameter", "str"]), "the file that came back no longer starts at step 1 beside strings")
PYTHON
