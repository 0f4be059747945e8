#!/usr/bin/env bash
# Expected: `module.compile()` compiles the module in its place, and otherwise does what `torch.compile(module)` does.
# Happens: On a module whose class torch itself defines (Linear, LayerNorm, TransformerEncoder and its layer) it compiles
#   nothing, without a warning: the backend is never called. nn.Sequential runs its parts one by one, so that it becomes as
#   many graphs as it has parts of the user's own. `torch.compile(module)` makes one graph of each of them.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: "call block.compile() on each block before FSDP" is the common advice, and a model of nn.TransformerEncoderLayer
#   stays eager by it. A class of one's own around the layer, or torch.compile(block), is the way out.
# Source: seen while chapter 18 was written; pytorch/pytorch#150915 says that the two differ. torch 2.11.0 does the same;
#   2.14.1 and 2.15.0 compile each.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch import nn


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def layer():
    return nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True)


def graphs(make, in_place):
    torch.compiler.reset()
    made = []

    def backend(module, inputs):
        made.append(module)
        return module.forward

    module = make()
    if in_place:
        module.compile(backend=backend)
        module(torch.ones(2, 4, 8))
    else:
        torch.compile(module, backend=backend)(torch.ones(2, 4, 8))
    return len(made)


modules = {
    "Linear": lambda: nn.Linear(8, 8),
    "LayerNorm": lambda: nn.LayerNorm(8),
    "TransformerEncoderLayer": layer,
    "TransformerEncoder": lambda: nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False),
    "Sequential of Linear and ReLU": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
    "Sequential of two of one's own": lambda: nn.Sequential(Own(), nn.Sequential(Own())),
    "a class of one's own around the layer": Own,
}
print("torch", torch.__version__)
seen = {name: (graphs(make, True), graphs(make, False)) for name, make in modules.items()}
for name, (in_place, wrapped) in seen.items():
    print(f"{name}: module.compile() makes {in_place} graphs, torch.compile(module) {wrapped}")
expected = [(0, 1)] * 5 + [(2, 1), (1, 1)]
if list(seen.values()) != expected:
    raise SystemExit(f"changed: {expected} was seen")
PYTHON
