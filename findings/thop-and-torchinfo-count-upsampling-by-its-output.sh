#!/usr/bin/env bash
# Expected: Counters agree on a transposed convolution: each input position is multiplied with the kernel once.
# Happens: thop and torchinfo take the positions of the output, as for a convolution. Upsampling with stride 2 counts 4
#   times too much in two dimensions and 8 times in three. FlopCounterMode and fvcore count the input's.
# Versions: torch==2.13.0, numpy==2.4.6, thop==0.1.1.post2209072238, torchinfo==1.8.0, fvcore==0.1.5.post20221221
# Matters: The decoder of a U-Net, a GAN or a vocoder seems several times as expensive as it is, next to an encoder that
#   is counted rightly; papers that compare upsampling by these tools compare the error.
# Source: sovrasov/flops-counter.pytorch#57 holds the same view of a third counter.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 thop==0.1.1.post2209072238 \
  torchinfo==1.8.0 fvcore==0.1.5.post20221221
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import logging

import thop
import torch
import torchinfo
from fvcore.nn import FlopCountAnalysis
from torch.utils.flop_counter import FlopCounterMode


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def counts(layer, data):
    with FlopCounterMode(display=False) as counter:
        layer(data)
    return {
        "FlopCounterMode / 2": counter.get_total_flops() // 2,
        "fvcore": int(FlopCountAnalysis(layer, data).total()),
        "torchinfo": torchinfo.summary(layer, input_data=data, verbose=0).total_mult_adds,
        "thop": int(thop.profile(layer, inputs=(data,), verbose=False)[0]),
    }


logging.disable(logging.WARNING)
plane = torch.nn.ConvTranspose2d(8, 16, 2, stride=2, bias=False), torch.zeros(2, 8, 10, 10)
space = torch.nn.ConvTranspose3d(8, 16, 2, stride=2, bias=False), torch.zeros(2, 8, 10, 10, 10)
down = torch.nn.Conv2d(8, 16, 2, stride=2, bias=False), torch.zeros(2, 8, 10, 10)
by_hand = [2 * 10**2 * 8 * 16 * 2**2, 2 * 10**3 * 8 * 16 * 2**3, 2 * 5**2 * 8 * 16 * 2**2]
found = [counts(*case) for case in (plane, space, down)]
print("torch", torch.__version__, "| counted, to the true multiply-adds: transposed 2d, transposed 3d, strided 2d")
for name in found[0]:
    ratios = [case[name] / true for case, true in zip(found, by_hand)]
    print(f"{name:20}", ratios)
    wrong = name in ("thop", "torchinfo")
    check(ratios == ([4, 8, 1] if wrong else [1, 1, 1]), name + " now counts otherwise")
PYTHON
