#!/usr/bin/env bash
# Expected: fvcore's FlopCountAnalysis counts the products of a matmul by its broadcast shape, whichever operand brings
#   the batch.
# Happens: Only the left operand's batch is counted. A matrix times a batch of 12 counts as one product, a batch of one
#   times a batch of 12 as well, and (4, 1) against (3,) as 4. The same product as an einsum, or expanded first, counts
#   12. Nothing is reported as unsupported.
# Versions: torch==2.13.0, numpy==2.4.6, fvcore==0.1.5.post20221221
# Matters: Shared queries against a batch of keys (perceivers, attention pooling, detection queries) and per-head or
#   per-expert weights applied to one input are undercounted by the number of heads, experts or examples.
# Source: facebookresearch/fvcore#54 brought in broadcasting, by the shape of the left operand.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 fvcore==0.1.5.post20221221
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import logging

import torch
from fvcore.nn import FlopCountAnalysis


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


class Product(torch.nn.Module):
    def __init__(self, multiply):
        super().__init__()
        self.multiply = multiply

    def forward(self, left, right):
        return self.multiply(left, right)


def count(left, right, multiply=torch.matmul):
    analysis = FlopCountAnalysis(Product(multiply), (torch.zeros(*left, 10, 16), torch.zeros(*right, 16, 6)))
    total = analysis.total()
    check(not analysis.unsupported_ops(), "an operator is now reported as unsupported")
    return int(total) // (10 * 16 * 6)


logging.disable(logging.WARNING)
found = {pair: count(*pair) for pair in (((12,), (12,)), ((12,), ()), ((), (12,)), ((1,), (12,)), ((4, 1), (3,)))}
einsum = count((), (12,), lambda left, right: torch.einsum("ij,bjk->bik", left, right))
print("torch", torch.__version__, "| batch of the left, of the right: products counted (each costs 12)")
for (left, right), products in found.items():
    print(f"{str(left):8}{str(right):8}{products}")
print("() and (12,) by einsum:", einsum)
both, only_left, only_right, one, crossed = found.values()
check(both == only_left == einsum == 12, "equal batches, the left one or einsum no longer count 12")
check(only_right == one == 1, "the right operand's batch now counts")
check(crossed == 4, "a crossed batch of 4 by 3 no longer counts 4")
PYTHON
