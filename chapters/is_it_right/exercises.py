"""Exercises of chapter 20, is it right?"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..exercises.judging import exercise

Function = Callable[[Tensor], Tensor]


def _sum(x: Tensor) -> Tensor:
    return (1e4 * x).sum(-1)


def _right(x: Tensor) -> Tensor:
    return (1e4 * x).flip(-1).cumsum(-1)[..., -1]


def _scaled_gradient(x: Tensor) -> Tensor:
    made = _sum(x)
    return made.detach() + 1.01 * (made - made.detach())


def _no_gradient(x: Tensor) -> Tensor:
    return _sum(x.detach()) + 0 * x.sum(-1)


def _changes_its_input(x: Tensor) -> Tensor:
    made = _sum(x)
    with torch.no_grad():
        x[0, 0] += 1
    return made


def _one_row(x: Tensor) -> Tensor:
    made = _sum(x)
    return made + 10.0 * (torch.arange(len(made)) == 5)


def _first_call_only() -> Function:
    calls: list[int] = []

    def stale(x: Tensor) -> Tensor:
        calls.append(1)
        return _sum(x) if len(calls) == 1 else _sum(x) + 10.0

    return stale


def compiled() -> Iterator[tuple[str, Function, bool]]:
    """What a compiler might return for `_sum`: what it is, the function, and whether it is wrong."""
    yield "the same function", _sum, False
    yield "one that adds in another order", _right, False
    yield "one whose gradient is a hundredth too large", _scaled_gradient, True
    yield "one that has lost its gradient", _no_gradient, True
    yield "one that changes its input", _changes_its_input, True
    yield "one with a single wrong row", _one_row, True
    yield "one that is right in its first call only", _first_call_only(), True


@exercise("20.4", takes=Callable)
def finds_faults(answer: Callable[..., bool]) -> str | None:
    """is_wrong(function, compiled, x): True for a fault, False for rounding; ``x`` is a float32 tensor."""
    x = torch.randn(16, 1024, generator=torch.Generator().manual_seed(20))
    for what, made, wrong in compiled():
        if bool(answer(_sum, made, x.clone())) is not wrong:
            return f"it {'does not see' if wrong else 'accuses'} {what}."
    return None


def _variance_by_hand(x: Tensor) -> Tensor:
    return (x + 100).square().mean(-1) - (x + 100).mean(-1).square()


def _logsumexp_by_hand(x: Tensor) -> Tensor:
    return x.exp().sum(-1).log()


PAIRS: dict[str, tuple[Callable, Callable, Callable, str]] = {
    "the same sum in bfloat16 and in float32": (
        lambda x: x.sum(-1),
        lambda x: x.bfloat16().sum(-1).float(),
        lambda x: x.sum(-1),
        "second",
    ),
    "a variance, by its definition (first) or as the mean of squares less the square of the mean (second)": (
        _variance_by_hand,
        lambda x: (x + 100).var(-1, correction=0),
        _variance_by_hand,
        "first",
    ),
    "a logarithm of a sum": (
        lambda x: (60 * x).logsumexp(-1),
        lambda x: _logsumexp_by_hand(60 * x),
        lambda x: (60 * x).logsumexp(-1),
        "second",
    ),
    "two that are the same": (lambda x: x.tanh(), lambda x: x.tanh(), lambda x: x.tanh(), "neither"),
}
"""The mathematics, two ways to compute it, and which is closer. One of the third's overflows."""


@exercise("20.2", takes=Callable)
def nearer_to_the_truth(answer: Callable[..., str]) -> str | None:
    """closer(exact, first, second, x): "first", "second" or "neither", for a float32 x."""
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(16))
    for name, (exact, first, second, right) in PAIRS.items():
        got = answer(exact, first, second, x.clone())
        if got not in ("first", "second", "neither"):
            return f"it returns {got!r}; this asks for 'first', 'second' or 'neither'."
        if got != right:
            return f"for {name}, it says {got!r}."
    return None
