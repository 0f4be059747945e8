"""Exercises of chapter 00, the eager baseline."""

from collections.abc import Callable
from typing import Any

import torch

from compile_lab.eager.dispatch import log

from ..exercises.judging import exercise


def _same(found: Any, right: torch.Tensor) -> bool:
    return isinstance(found, torch.Tensor) and found.shape == right.shape and torch.allclose(found, right)


@exercise("00.2", takes=Callable)
def one_operator_that_writes(answer: Callable) -> str | None:
    """fused(x, y, b) = 0.5·x·y + b, in one operator that writes data."""
    x, y, b = (torch.linspace(-1, 1 + k, 6) for k in range(3))
    before = [one.clone() for one in (x, y, b)]
    found = log(answer, x, y, b)
    if not _same(found.result, 0.5 * before[0] * before[1] + before[2]):
        return "the result is not 0.5 * x * y + b."
    if not all(map(torch.equal, before, (x, y, b))):
        return "an input was overwritten: whoever called still needs it."
    return None if found.computing == 1 else f"{found.computing} operators write data, not one."


@exercise("00.3", takes=Callable)
def only_views(answer: Callable) -> str | None:
    """pick(x): the even rows of a matrix as columns, with no data moved."""
    x = torch.arange(24.0).reshape(6, 4)
    found = log(answer, x)
    if not _same(found.result, torch.stack([x[0], x[2], x[4]]).T):
        return "the result is not the starter's."
    return f"operators that write data: {found.computing}, not 0." if found.computing else None


@exercise("00.4", takes=Callable)
def twelve_dispatches(answer: Callable) -> str | None:
    """A function of one tensor: one call of torch by Python, and at least twelve dispatches."""
    found = log(answer, torch.rand(2, 3, 4))
    if found.python_calls != 1:
        return f"Python calls torch {found.python_calls} times, not once."
    return None if len(found.calls) >= 12 else f"dispatches: {len(found.calls)}, fewer than twelve."
