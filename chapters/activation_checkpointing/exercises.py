"""Exercises of chapter 08, activation checkpointing."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from compile_lab.eager.flops import work_of

from ..exercises.judging import exercise


def _gradients(fn: Callable[..., torch.Tensor], x: torch.Tensor, wanted: list[torch.Tensor]) -> object:
    return torch.autograd.grad(fn(x).sum(), wanted)


@exercise("08.2", takes=Callable)
def keeps_products(answer: Callable) -> str | None:
    """A policy under which linear, GELU, linear repeats the GELU and no matmul."""
    for bias in (True, False):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(8, 16, bias=bias), nn.GELU(), nn.Linear(16, 8, bias=bias), nn.Tanh())
        x = torch.randn(4, 8, requires_grad=True)
        contexts = partial(create_selective_checkpoint_contexts, answer)
        again = partial(checkpoint, block, use_reentrant=False, context_fn=contexts)
        wanted = [x, *block.parameters()]
        plain, found = (work_of(partial(_gradients, fn, x, wanted)) for fn in (block, again))
        if found.flops > plain.flops:
            return f"the matmul of a Linear {'with' if bias else 'without'} a bias is computed twice."
        if found.ops == plain.ops:
            return "nothing is computed twice: the policy keeps more than matmuls."
    return None


@exercise("08.4", takes=Callable)
def same_numbers(answer: Callable) -> str | None:
    """again(fn, x): fn(x) twice with the same random numbers, leaving the generator as one call would."""
    x = torch.ones(64)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.dropout(x, 0.5, train=True)

    torch.manual_seed(3)
    right = fn(x)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    found = answer(fn, x)
    if not isinstance(found, tuple | list) or len(found) != 2:
        return "it must return two results."
    if not torch.equal(found[0], found[1]):
        return "the two results are different."
    if not torch.equal(found[0], right):
        return "the results are not those of a single call with that seed."
    if not torch.equal(torch.get_rng_state(), state):
        return "the generator is not where a single call would have left it."
    return None
