"""Exercises of chapter 08, activation checkpointing."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from ..eager.flops import work_of
from . import exercise


@exercise("08.1", takes=Callable)
def best_segment(answer: Callable) -> str | None:
    """best_segment(blocks, input_nbytes, block_nbytes): the length with the least inputs and activations together."""
    for blocks, inputs, block in [(36, 1, 1), (24, 67, 640), (24, 100, 5), (7, 3, 1), (48, 10, 40)]:
        lengths = [k for k in range(1, blocks + 1) if blocks % k == 0]
        took = answer(blocks, inputs, block)
        said = f"{blocks} blocks that keep {block} bytes each, with inputs of {inputs}"
        if took not in lengths:
            return f"for {said}, it gives {took!r}, which does not divide {blocks}."
        bytes_of = {k: blocks // k * inputs + k * block for k in lengths}
        if bytes_of[took] > min(bytes_of.values()):
            return f"for {said}, segments of {took} need {bytes_of[took]} bytes, and another length needs fewer."
    return None


@exercise("08.2", takes=Callable)
def keeps_products(answer: Callable) -> str | None:
    """A policy under which linear, GELU, linear repeats the GELU and no matrix product."""
    for bias in (True, False):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(8, 16, bias=bias), nn.GELU(), nn.Linear(16, 8, bias=bias), nn.Tanh())
        x = torch.randn(4, 8, requires_grad=True)
        contexts = partial(create_selective_checkpoint_contexts, answer)
        again = partial(checkpoint, block, use_reentrant=False, context_fn=contexts)
        wanted = [x, *block.parameters()]
        plain, found = (
            work_of(lambda fn=fn, x=x, wanted=wanted: torch.autograd.grad(fn(x).sum(), wanted)) for fn in (block, again)
        )
        if found.flops > plain.flops:
            return f"a matrix product of a Linear {'with' if bias else 'without'} a bias is computed twice."
        if found.ops == plain.ops:
            return "nothing is computed twice: the policy keeps more than products."
    return None


@exercise("08.3", takes=int)
def least_work(answer: int) -> str | None:
    """Four results of (bytes, work), and room for 8 bytes: the least work that is repeated."""
    if answer == 3:
        return None
    if answer == 5:
        return "that is the work that saving spares; what is repeated is the rest."
    return "repeat less: find the pair that fits." if answer > 3 else "that little does not fit into 8 bytes."


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
