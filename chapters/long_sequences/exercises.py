"""Exercises of chapter 17, long sequences."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..exercises.judging import exercise


@exercise("17.3", takes=Callable)
def merge_all(answer: Callable[[Tensor, Tensor], Tensor]) -> str | None:
    """merge_all(outs, lses): attention to all keys, from that to each block of them."""
    torch.manual_seed(0)
    scores, values = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(3, 5, 2, dtype=torch.float64)
    none = scores.clone()
    none[0, 0] = -torch.inf
    cases = {"scores as usual": scores, "scores of 1,000": 1000 * scores, "a query that sees nothing of block 0": none}
    for case, each in cases.items():
        lses = each.logsumexp(-1, keepdim=True)
        outs = each.softmax(-1).nan_to_num() @ values
        together = each.movedim(0, 1).flatten(1).softmax(-1) @ values.flatten(0, 1)
        got = answer(outs, lses)
        if got.shape != together.shape:
            return f"it returns {list(got.shape)}, and the queries' outputs are {list(together.shape)}."
        if not got.isfinite().all():
            return f"with {case} there is a number that is not finite: which one did you exponentiate?"
        if not torch.allclose(got, together):
            return f"with {case} it is off by {(got - together).abs().max().item():.2g}."
    return None
