"""Exercises of chapter 22, attention masks and passes of your own."""

from collections.abc import Callable

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from ..exercises.judging import exercise
from .flex import dense, inputs, visits

TOKENS, PREFIX = 96, 32


BLOCK, BLOCKS = 16, 4


@exercise("22.2", takes=Callable)
def prefix_mask(answer: Callable) -> str | None:
    """mask(batch, head, query, key): the first 32 tokens see each other; every token sees itself and those before."""
    query, key = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)[None, :]
    zero = torch.tensor(0)
    got = answer(zero, zero, query, key)
    if not isinstance(got, Tensor) or got.dtype != torch.bool:
        return f"it gives {type(got).__name__}: a mask gives a tensor of True and False; join two with `|` or `&`."
    right = (query >= key) | ((query < PREFIX) & (key < PREFIX))
    wrong = (got.expand_as(right) != right).nonzero().tolist()
    if wrong:
        at, other = wrong[0]
        return f"query {at} {'may not' if got.expand_as(right)[at, other] else 'may'} see key {other}."
    return None


def _negated(x: Tensor) -> Tensor:
    return (x.neg().neg() * 2 - x.neg().neg().neg()) + x.neg()


@exercise("22.3", takes=Callable)
def without_double_negation(answer: Callable) -> str | None:
    """own(graph): takes every pair of negations out of a graph of aten operations, and changes no result."""
    x = torch.linspace(-1, 1, 8)
    traced = make_fx(_negated)(x)
    found = answer(traced.graph)
    if isinstance(found, fx.Graph):
        return "it returns a graph; a pass for Inductor changes the graph that it is given."
    traced.graph.lint()
    traced.recompile()
    if not torch.equal(traced(x), _negated(x)):
        return "the graph computes something else now."
    left = len(traced.graph.find_nodes(op="call_function", target=torch.ops.aten.neg.default))
    if left > 2:
        return f"{left} negations are left, and 2 are enough: which of them does nobody read any more?"
    return None


@exercise("22.4", takes=Callable)
def attention_by_blocks(answer: Callable) -> str | None:
    """attend(q, k, v, mask, rows, block): attention that computes the blocks of pairs that ``rows`` names, no others.

    ``q``, ``k``, ``v``: [length, width]; ``mask(query, key)``; ``rows`` as `BlockVisits.rows`.
    """
    length = BLOCK * BLOCKS
    q, k, v = (each[0, 0] for each in inputs(1, 1, length, 8))
    for name, width in (("causal", length), ("a window of 20", 20)):

        def four(batch: Tensor, head: Tensor, query: Tensor, key: Tensor, width: int = width) -> Tensor:
            return (query >= key) & (query - key < width)

        def checked(query: Tensor, key: Tensor, width: int = width) -> Tensor:
            allowed = (query >= key) & (query - key < width)
            if allowed.numel() > BLOCK**2:
                raise ValueError(
                    f"the mask is evaluated for {allowed.numel()} pairs at once, and a block has {BLOCK**2}"
                )
            return allowed

        rows = visits(four, length, BLOCK).rows
        right = dense(q[None, None].double(), k[None, None].double(), v[None, None].double(), None, four)[0, 0]
        for at, row in enumerate(rows):
            left_out = torch.tensor([letter == " " for letter in row]).repeat_interleave(BLOCK)[:, None]
            keys, values = (each.masked_fill(left_out, torch.nan) for each in (k, v))
            got = answer(q, keys, values, checked, rows, BLOCK)
            own = slice(at * BLOCK, (at + 1) * BLOCK)
            if not isinstance(got, Tensor) or got.shape != q.shape:
                return f"it returns {getattr(got, 'shape', type(got).__name__)}: this asks for {tuple(q.shape)}."
            if got[own].isnan().any():
                return f"{name}, row {at} of blocks: NaN. Is a block read that is left out, or has a query no key yet?"
            if (off := (got[own] - right[own]).abs().max().item()) > 1e-5:
                return f"{name}, row {at} of blocks is {off:.2g} off."
    return None
