#!/usr/bin/env bash
# Expected: dcp.load fills the state dict that it is handed. With a new optimizer's state_dict() inside, it either
#   restores Adam's moments or raises, since the checkpoint holds tensors that nobody asked for.
# Happens: A new optimizer's state_dict() has no moments yet, so dcp.load finds nothing to fill, and says nothing. The
#   learning rate and the weights come back; the moments and the step counter are dropped in silence.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: The loop that works with torch.save (model.state_dict(), optimizer.state_dict()) resumes with cold Adam
#   moments when its two calls are replaced by dcp.save and dcp.load. Everything that one would look at (weights, lr)
#   is right.
# Source: torch's documentation of torch.distributed.checkpoint says that loading is in place and fills only what the
#   given dict holds; the optimizer's case is what get_optimizer_state_dict exists for.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
import torch.distributed.checkpoint as dcp


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def made(lr):
    model = torch.nn.Linear(4, 4)
    return model, torch.optim.AdamW(model.parameters(), lr=lr)


torch.manual_seed(0)
model, optimizer = made(3e-4)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
dcp.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint_id="checkpoint")

resumed, fresh = made(1e-3)
state = {"model": resumed.state_dict(), "optimizer": fresh.state_dict()}
dcp.load(state, checkpoint_id="checkpoint")
fresh.load_state_dict(state["optimizer"])

stored = [key for key in dcp.FileSystemReader("checkpoint").read_metadata().state_dict_metadata if "exp_avg" in key]
print("torch", torch.__version__)
print("moments in the checkpoint:", stored)
print("weights restored:", torch.equal(model.weight, resumed.weight), "lr:", fresh.param_groups[0]["lr"])
print("parameters with moments after loading:", len(fresh.state))
check(len(stored) == 4, "the moments are no longer saved under exp_avg")
check(torch.equal(model.weight, resumed.weight), "the weights no longer come back")
check(fresh.param_groups[0]["lr"] == 3e-4, "the learning rate no longer comes back")
check(len(fresh.state) == 0, "a new optimizer's moments are now loaded")
PYTHON
