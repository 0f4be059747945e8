"""Exercises of chapter 09, memory lifetimes."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from compile_lab.memory.eager import eager_lifetimes
from compile_lab.memory.ledger import Lifetimes
from compile_lab.page.units import number

from ..exercises.judging import exercise


@exercise("09.3", takes=Callable)
def lean_loss(answer: Callable) -> str | None:
    """loss(x, w, targets): cross entropy of x @ w.T with a peak of at most a third, and the same gradients."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(2000, (512,), generator=generator)
    values = [torch.randn(*shape, generator=generator) / 8 for shape in ((512, 64), (2000, 64))]

    def whole(x: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x @ w.T, targets)

    (right, limit), (found, used) = (_trained(fn, values, targets) for fn in (whole, answer))
    for name, one, other in zip(("loss", "gradient of x", "gradient of w"), right, found, strict=True):
        if not torch.allclose(one, other, rtol=1e-4, atol=1e-6):
            return f"the {name} is not that of the starter."
    if used.peak_nbytes > limit.peak_nbytes / 3:
        return f"its peak is {number(used.peak_nbytes)} bytes; the starter's is {number(limit.peak_nbytes)}."
    return None


def _trained(
    fn: Callable, values: list[torch.Tensor], targets: torch.Tensor
) -> tuple[tuple[torch.Tensor, ...], Lifetimes]:
    leaves = [value.clone().requires_grad_() for value in values]

    def step() -> torch.Tensor:
        loss = fn(*leaves, targets)
        loss.backward()
        return loss.detach()

    found = eager_lifetimes(step)
    gradients = [torch.zeros(()) if leaf.grad is None else leaf.grad for leaf in leaves]
    return (fn(*leaves, targets).detach(), *gradients), found


@exercise("09.4", takes=Callable)
def validates(answer: Callable) -> str | None:
    """validate(model, batches): the mean loss as a float, with a peak that does not grow with the batches."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10))
    batches = [(torch.randn(16, 32), torch.randint(10, (16,))) for _ in range(12)]
    got = answer(model, batches)
    if not isinstance(got, float):
        return f"it returns a {type(got).__name__}: this asks for a float."
    with torch.no_grad():
        right = sum(F.cross_entropy(model(x), y).item() for x, y in batches) / len(batches)
    if abs(got - right) > 1e-5:
        return "the mean is not that of the starter."
    few, many = (eager_lifetimes(partial(answer, model, batches[:n])).peak_nbytes for n in (3, 12))
    if many > 1.05 * few:
        return f"the peak grows with the batches: {number(few)} bytes for 3, {number(many)} for 12."
    return None
