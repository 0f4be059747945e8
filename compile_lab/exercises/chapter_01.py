"""Exercises of chapter 01, graph breaks."""

from collections.abc import Callable
from typing import Any

import torch

from ..dynamo.tracing import DynamoTrace, trace
from . import exercise, more_or_fewer


def _first_break(trace: DynamoTrace) -> str | None:
    if trace.breaks:
        return f"the graph still breaks: {trace.breaks[0].source} ({trace.breaks[0].reason})."
    return None if len(trace.graphs) == 1 else f"Dynamo made {len(trace.graphs)} graphs."


@exercise("01.1", takes=Callable)
def clip_in_one_graph(answer: Callable) -> str | None:
    """clip(x, limit): scaled to norm ``limit`` if the norm is above it, in one graph."""
    for name, x in [("above the limit", torch.full((4,), 3.0)), ("below the limit", torch.full((4,), 0.1))]:
        norm = x.norm()
        right = x * (2.0 / norm) if norm > 2.0 else x
        if not torch.allclose(torch.as_tensor(answer(x.clone(), 2.0)), right):
            return f"the result is wrong for a vector whose norm is {name}."
    return _first_break(trace(answer, torch.full((4,), 3.0), 2.0))


@exercise("01.2", takes=int)
def predicted_graphs(answer: int) -> str | None:
    """How many graphs come of a break two calls deep, with work before and after it at each level."""

    def inner(x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        print("here")
        return x.cos()

    def middle(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2) + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        return middle(x.exp()).sqrt()

    graphs = len(trace(outer, torch.rand(4)).graphs)
    return more_or_fewer(answer, graphs, "walk through each function that is on the stack when print is reached.")


@exercise("01.3", takes=Callable)
def logs_without_breaking(answer: Callable) -> str | None:
    """step(w, x, history): one descent step on mean((x·w)²) that also records its loss in ``history``."""
    x, w = torch.eye(3) * 2, torch.ones(3)
    history: list[Any] = []
    found = trace(answer, w.clone(), x, history)
    if not torch.allclose(found.result, w - 0.1 * 8 * w / 3):
        return "the new weights are not those of the starter."
    if wrong := _first_break(found):
        return wrong
    if len(history) != 1 or not torch.allclose(torch.as_tensor(history[0]).float(), torch.tensor(4.0)):
        return "after one step, history must hold exactly that step's loss."
    return None


@exercise("01.4", takes=Callable)
def one_break_five_graphs(answer: Callable) -> str | None:
    """A function of one tensor with exactly one break and exactly five graphs."""
    found = trace(answer, torch.rand(4))
    if len(found.breaks) != 1:
        return f"it has {len(found.breaks)} breaks, not one."
    if len(found.graphs) != 5:
        return f"one break, and {len(found.graphs)} graphs: what decides how many frames a break splits?"
    return None
