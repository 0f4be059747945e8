"""Random programs: one of torch's operators, on one of torch's own samples for it, between two simple ones."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from compile_lab._torch.opinfo import operators, samples_with_sides_of
from compile_lab.memory import Peak, measure_peak

SIDE = 9
"""The length that torch's samples have where they mean "some length"; smaller than the other lengths in them."""
FEWEST = 8
"""Elements of all tensors of a sample."""
AROUND: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x,
    lambda x: x * 2,
    torch.sin,
    lambda x: torch.sigmoid(x) + x,
    lambda x: x.exp().log1p(),
)

Program = tuple[Callable[..., Tensor], list[Tensor]]
"""A function that returns a loss, and its arguments, of which some are leaves."""


def differentiable() -> list[str]:
    """The names of torch's operators on float32 that have a gradient; a reference in Python is none of them."""
    known = operators().items()
    return [
        name for name, each in known if each.supports_autograd and torch.float32 in each.dtypes and "_refs" not in name
    ]


def program(name: str, seed: int = 0) -> Program | None:
    """Around an operator; None where none of its samples has a loss that needs a gradient."""
    draw, operator = random.Random(f"{name} {seed}"), operators()[name]
    torch.manual_seed(seed)
    with samples_with_sides_of(SIDE):
        samples = list(operator.sample_inputs("cpu", torch.float32, requires_grad=True))
    draw.shuffle(samples)
    before, after = draw.choice(AROUND), draw.choice(AROUND)
    made = (_around(operator.op, each, before, after) for each in samples)
    return next((each for each in made if sum(x.numel() for x in each[1]) >= FEWEST and _runs(*each)), None)


def _around(operator: Callable[..., Any], sample: Any, before: Any, after: Any) -> Program:
    leaves, tree = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [at for at, each in enumerate(leaves) if isinstance(each, Tensor)]
    given = [leaves[at].detach().requires_grad_(leaves[at].requires_grad) for at in places]

    def run(*tensors: Tensor) -> Tensor:
        filled = list(leaves)
        for at, each in zip(places, tensors, strict=True):
            filled[at] = before(each) if each.requires_grad else each
        first, args, kwargs = tree_unflatten(filled, tree)
        results = [each for each in tree_leaves(operator(first, *args, **kwargs)) if isinstance(each, Tensor)]
        real = [each.real if each.is_complex() else each for each in results if each.requires_grad]
        return sum((after(each).square().sum() for each in real), torch.zeros(()))

    return run, given


def _runs(run: Callable[..., Tensor], given: list[Tensor]) -> bool:
    try:
        loss = run(*given)
        if loss.requires_grad:
            loss.backward()
    except (RuntimeError, TypeError, IndexError, ValueError):  # a sample of another length than the others expect
        return False
    finally:
        for each in given:
            each.grad = None
    return loss.requires_grad


def measured(run: Callable[..., Tensor], given: Sequence[Tensor]) -> Peak:
    """The allocator's peak in a compiled step, once all is compiled: forward, and backward by ones."""
    torch.compiler.reset()
    compiled = torch.compile(run)

    def forget() -> None:
        for each in given:
            each.grad = None

    def step() -> None:
        out = compiled(*given)
        out.backward(torch.ones_like(out))

    step(), forget()
    return measure_peak(step, forget)
