"""Exercises of chapter 01, graph breaks."""

from collections.abc import Callable
from typing import Any

import torch

from compile_lab.dynamo.recompiles import replay
from compile_lab.dynamo.tracing import DynamoTrace, trace

from ..exercises.judging import exercise


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


def tamed(x: torch.Tensor, seen: dict[str, torch.Tensor]) -> torch.Tensor:
    """What 01.5 asks to be rewritten: a branch, a loop and two counters, all of which ask for values of x."""
    if not x.isfinite().all():
        seen["skipped"] += 1
        return torch.zeros_like(x)
    while x.norm() > 1:
        x = x / 2
        seen["halved"] += 1
    return x


def _counters() -> dict[str, torch.Tensor]:
    return {"skipped": torch.tensor(0), "halved": torch.tensor(0)}


def _vectors() -> list[tuple[str, torch.Tensor]]:
    """Inputs of 01.5, each with what is special about it; the first two are those that a rewrite has in mind."""
    nan, inf = float("nan"), float("inf")
    named = {
        "whose norm is below 1": (0.01, 0.02, 0.03, 0.04),
        "whose norm is 7": (7.0, 0.0, 0.0, 0.0),
        "with a NaN": (0.1, nan, 0.3, 0.4),
        "with an infinity": (0.1, 0.2, -inf, 0.4),
        "of zeros": (0.0, 0.0, 0.0, 0.0),
        "whose norm is exactly 4": (0.0, -4.0, 0.0, 0.0),
        "whose norm is exactly 1": (0.0, 0.0, 1.0, 0.0),
        "whose norm is just above 2": (2.0000002, 0.0, 0.0, 0.0),
        "whose norm is just above 1024": (0.0, 1024.0001, 0.0, 0.0),
    }
    drawn = torch.Generator().manual_seed(0)
    some = [torch.randn(4, generator=drawn) * 10.0**size for size in (-3, 0, 0, 1, 1, 2, 4, 9)]
    found = [(kind, torch.tensor(values)) for kind, values in named.items()]
    return found + [(f"whose norm is {x.norm():.3g}", x) for x in some]


@exercise("01.5", takes=Callable)
def tamed_in_one_graph(answer: Callable) -> str | None:
    """tame(x, seen): what tamed does, in results and counters, for any values in one graph with fullgraph=True."""
    for kind, x in _vectors():
        (expected, right), (got, own) = (_called(fn, x) for fn in (tamed, answer))
        if wrong := _differs(expected, right, got, own, f"for a vector {kind}"):
            return wrong
    if wrong := _first_break(trace(answer, torch.full((4,), 3.0), _counters())):
        return wrong
    right, own = _counters(), _counters()
    calls = replay(answer, [(x.clone(), own) for _, x in _vectors()], fullgraph=True)
    for at, (call, (kind, x)) in enumerate(zip(calls, _vectors(), strict=True), 1):
        if isinstance(call.result, Exception):
            return f"with fullgraph=True call {at} {call.outcome}."
        if call.outcome != ("compiled" if at == 1 else "reused"):
            return f"call {at}, a vector {kind}, is not served by the first graph: {'; '.join(call.failed)}."
        if wrong := _differs(tamed(x, right), {}, call.result, {}, f"compiled, for a vector {kind}"):
            return wrong
    return _differs(None, right, None, own, f"compiled, after {len(calls)} calls")


def _called(fn: Callable, x: torch.Tensor) -> tuple[Any, dict[str, torch.Tensor]]:
    seen, given = _counters(), x.clone()
    result = fn(given, seen)
    if not torch.equal(given.nan_to_num(), x.nan_to_num()):
        raise ValueError("it changed its input, which whoever called still needs")
    return result, seen


def _differs(expected: Any, right: dict, got: Any, own: dict, when: str) -> str | None:
    """The first thing in which a call differs from the starter's: its result, or a counter."""
    if expected is not None and not (
        isinstance(got, torch.Tensor) and got.shape == expected.shape and torch.allclose(got, expected)
    ):
        return f"{when} the result is not the starter's."
    for name in right:
        if (count := float(own[name])) != float(right[name]):
            few = "few" if count < float(right[name]) else "many"
            return f"{when} seen[{name!r}] is {count:g}, too {few}."
    return None
