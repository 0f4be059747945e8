#!/usr/bin/env bash
# Expected: TensorDict.load_memmap is to a saved TensorDict what torch.load(mmap=True) is to a checkpoint: pages come
#   from the file, and writes stay in memory.
# Happens: The mapping is shared. An optimizer step on a module that took its weights by to_module writes into the
#   saved file, without any call that saves. torch.load(mmap=True) and safetensors leave their files alone.
# Versions: torch==2.13.0, numpy==2.4.6, tensordict==0.15.3
# Matters: The checkpoint that a sweep starts from changes with the first run that uses it, and the second run starts
#   from trained weights.
# Source: the docstring of TensorDict.load_memmap says that leaves read their files lazily, and nothing of writes.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 tensordict==0.15.3
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import tensordict
import torch
from tensordict import TensorDict


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def trained(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()


torch.manual_seed(0)
source = torch.nn.Linear(3, 2)
before = source.weight.detach().clone()
TensorDict.from_module(source).data.memmap("folder")
torch.save(source.state_dict(), "file.pt")

mapped = torch.nn.Linear(3, 2)
TensorDict.load_memmap("folder").to_module(mapped)
trained(mapped)
plain = torch.nn.Linear(3, 2)
plain.load_state_dict(torch.load("file.pt", mmap=True), assign=True)
trained(plain)

stored = TensorDict.load_memmap("folder")["weight"], torch.load("file.pt")["weight"]
print("torch", torch.__version__, "tensordict", tensordict.__version__)
print("largest change of the file by one step of training: tensordict", (stored[0] - before).abs().max().item())
print("torch.load(mmap=True)", (stored[1] - before).abs().max().item())
check(torch.equal(stored[1], before), "torch.load(mmap=True) now writes to the file")
check(torch.allclose(stored[0], before - 0.1), "training no longer writes to tensordict's file")
PYTHON
