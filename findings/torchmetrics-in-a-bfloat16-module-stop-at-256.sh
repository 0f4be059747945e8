#!/usr/bin/env bash
# Expected: A torchmetrics metric inside a module keeps float32 sums, or is cast with the module, but in the same way for
#   module.bfloat16() and module.to(torch.bfloat16).
# Happens: bfloat16() leaves the metric alone, to(torch.bfloat16) casts its sums. They then stop growing at 256: the
#   mean of 500 zeros and 500 ones is 1, and the perplexity of a uniform guess among 8 is 54.5.
# Versions: torch==2.13.0, numpy==2.4.6, torchmetrics==1.9.0, lightning-utilities==0.15.3, packaging==26.4
# Matters: A validation loss kept in self.val_loss is wrong after some hundred batches, as soon as the model is moved by
#   to(), device and dtype in one call. Accuracy, which counts in integers, stays right beside it.
# Source: Lightning-AI/torchmetrics#1561 and #2314 (closed) are about half(); the documentation says that metrics take
#   another dtype by set_dtype only.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0 \
  lightning-utilities==0.15.3 packaging==26.4
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torchmetrics import MeanMetric, SumMetric
from torchmetrics.text import Perplexity


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.mean, self.sum, self.perplexity = MeanMetric(), SumMetric(), Perplexity()


def results(convert):
    model = convert(Model())
    check(model.layer.weight.dtype == torch.bfloat16, "the layer is no longer cast")
    for step in range(1000):
        model.mean.update(torch.tensor(float(step >= 500)))
        model.sum.update(torch.tensor(float(step >= 500)))
        model.perplexity.update(torch.zeros(1, 4, 8), torch.zeros(1, 4, dtype=torch.long))
    return [round(metric.compute().item(), 2) for metric in (model.mean, model.sum, model.perplexity)]


method, to = results(lambda model: model.bfloat16()), results(lambda model: model.to(torch.bfloat16))
print("torch", torch.__version__, "| mean and sum of 500 zeros and 500 ones, perplexity of a uniform guess among 8:")
print("model.bfloat16():        ", method)
print("model.to(torch.bfloat16):", to)
check(method == [0.5, 500, 8], "bfloat16() now changes the metrics")
check(to[:2] == [1, 256] and to[2] > 50, "to(torch.bfloat16) no longer casts the metrics' sums")
PYTHON
