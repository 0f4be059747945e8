#!/usr/bin/env bash
# Expected: A fresh OFT adapter is the identity, on a convolution as on a linear layer, and a merged adapter computes
#   what the unmerged one computed.
# Happens: OFT on a Conv2d turns the input's patches and puts them together again: overlapping ones are added up, and
#   the pixels come back in another order. With a 3x3 kernel a constant image enters the layer nine times as bright,
#   any other one scrambled; the fresh adapter changes the output by more than its own size. Merged, the same fresh
#   adapter is the identity. A 1x1 kernel and a linear layer are right.
# Versions: torch==2.13.0, numpy==2.4.6, peft==0.21.2, transformers==5.23.0, accelerate==1.15.0, safetensors==0.8.0
# Matters: The first step of fine-tuning starts from a broken network, training makes up for it somehow, and
#   merge_and_unload gives another model than the one that was trained. No shape is wrong and no message comes.
# Source: peft#1996 rewrote OFT's convolution and merging; read from the source of peft's oft/layer.py.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 peft==0.21.2 transformers==5.23.0 accelerate==1.15.0 \
  safetensors==0.8.0
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import copy

import peft
import torch
from torch import nn


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def adapted(layer):
    config = peft.OFTConfig(r=0, oft_block_size=4, target_modules=["0"])
    return peft.get_peft_model(nn.Sequential(copy.deepcopy(layer)), config).eval()


def off(got, want):
    return ((got - want).norm() / want.norm()).item()


print("torch", torch.__version__, "| peft", peft.__version__)
torch.manual_seed(0)
images = torch.randn(2, 8, 12, 12)
cases = {
    "linear layer": (nn.Linear(12, 12), images[0]),
    "1x1 convolution": (nn.Conv2d(8, 8, 1), images),
    "2x2 convolution, stride 2": (nn.Conv2d(8, 8, 2, stride=2), images),
    "3x3 convolution": (nn.Conv2d(8, 8, 3), images),
    "3x3 convolution, padded": (nn.Conv2d(8, 8, 3, padding=1), images),
}
for name, (layer, given) in cases.items():
    model = adapted(layer)
    with torch.no_grad():
        want, fresh = layer(given), off(model(given), layer(given))
        model.merge_adapter()
        merged = off(model(given), want)
    print(f"{name} | fresh adapter: off by {fresh:.2f} of the output | merged: {merged:.2f}")
    check(merged < 1e-3, f"merging a fresh adapter changes the {name}")
    check(fresh > 0.5 if name[0] in "23" else fresh < 1e-3, f"another fresh adapter of the {name}")

layer = nn.Conv2d(8, 8, 3, bias=False)
with torch.no_grad():
    ones = torch.ones(1, 8, 12, 12)
    factor = (adapted(layer)(ones) / layer(ones))[0, :, 5, 5]
print("constant image, 3x3: factor in the middle", [round(each, 3) for each in factor.tolist()])
check(torch.allclose(factor, torch.full_like(factor, 9), rtol=1e-3), "the patches of a constant image add up otherwise")
PYTHON
