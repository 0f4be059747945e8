#!/usr/bin/env bash
# Expected: torchmetrics' Perplexity of float16 logits is that of the same logits in float32, as cross_entropy's is,
#   within rounding.
# Happens: It is infinite. The softmax is taken in float16 and its logarithm afterwards; a target some 17 below the
#   largest logit has probability 0 there. One such token in the epoch makes the whole result infinite. bfloat16 has the
#   range and loses a percent and a half.
# Versions: torch==2.13.0, numpy==2.4.6, torchmetrics==1.9.0, lightning-utilities==0.15.3, packaging==26.4
# Matters: Evaluation in half precision reports a diverged model, or one that is slightly better than it is.
# Source: Lightning-AI/torchmetrics#2224 and #2235 let float16 in.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0 \
  lightning-utilities==0.15.3 packaging==26.4
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import math

import torch
from torchmetrics.text import Perplexity


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


torch.manual_seed(0)
logits, targets = torch.randn(1, 2000, 50) * 3, torch.randint(50, (1, 2000))
print("torch", torch.__version__, "| 2,000 tokens, logits with a standard deviation of 3")
found = {}
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    metric = Perplexity()
    metric.update(logits.to(dtype), targets)
    loss = torch.nn.functional.cross_entropy(logits.to(dtype).float()[0], targets[0])
    found[dtype] = metric.compute().item(), loss.exp().item()
    print(f"{str(dtype):15} torchmetrics {found[dtype][0]:8.1f}, cross_entropy of the same logits {found[dtype][1]:.1f}")
wide, half, brain = found.values()
check(abs(wide[0] / wide[1] - 1) < 1e-3, "float32 no longer agrees with cross_entropy")
check(math.isinf(half[0]) and half[1] < 2000, "float16 is no longer infinite")
check(0.005 < 1 - brain[0] / brain[1] < 0.05, "bfloat16 is no longer a percent or so too low")
PYTHON
