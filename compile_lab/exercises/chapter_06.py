"""Exercises of chapter 06, compile modes."""

import math
from collections.abc import Callable

import torch

from ..dynamo.tracing import trace
from ..modes.cost import break_even_calls
from . import exercise


@exercise("06.1", takes=Callable)
def break_even(answer: Callable) -> str | None:
    """break_even(compile_s, eager_ms, compiled_ms): calls after which compiling has paid, or None."""
    for times in ((10.0, 3.0, 1.0), (20.5, 2.5, 1.75), (0.0101, 2.0, 1.0), (10.0, 1.0, 2.0), (10.0, 1.0, 1.0)):
        expected = break_even_calls(*times)
        try:
            got = answer(*times)
        except ZeroDivisionError:
            return f"for {times} it divides by zero: what if a compiled call saves nothing?"
        if got == expected and isinstance(got, type(expected)):
            continue
        if expected is None:
            return f"for {times} compiling never pays, and yours says {got}."
        if got is None:
            return f"for {times} compiling does pay some time."
        if isinstance(got, float) and math.isclose(got * 1000, times[0] * 1e3 / (times[1] - times[2])):
            return "seconds were divided by milliseconds."
        return f"for {times} it says {got}: is that a number of calls, and the first at which compiling has paid?"
    return None


@exercise("06.2", takes=Callable)
def choose(answer: Callable) -> str | None:
    """choose(costs, calls): the mode that is done first with so many calls."""
    costs = {"eager": (0.0, 5.0), "default": (10.0, 3.0), "reduce-overhead": (12.0, 2.0), "max-autotune": (90.0, 1.9)}
    for calls in (1, 2_000, 4_500, 100_000, 10_000_000):
        best = min(costs, key=lambda mode: costs[mode][0] + calls * costs[mode][1] / 1e3)
        got = answer(dict(costs), calls)
        if got != best:
            return f"for {calls:,} calls and the costs {costs} it chooses {got!r}, and another one is done earlier."
    return None


@exercise("06.3", takes=float)
def most_that_cuda_graphs_give(answer: float) -> str | None:
    """A call of 2.4 ms that keeps the GPU busy for 0.3 ms."""
    if math.isclose(answer, 2.4 / 0.3, rel_tol=0.01):
        return None
    return f"{answer:g}× would leave {2.4 / answer:.3g} ms a call." if answer > 0 else "a ratio of times is positive."


@exercise("06.4", takes=Callable)
def leaves_its_input_alone(answer: Callable) -> str | None:
    """normalised(x): rows centred, divided by their deviation, doubled; the input unchanged, one graph."""
    x = torch.linspace(-1, 2, 12).view(3, 4) ** 3
    given = x.clone()
    found = trace(answer, given)
    centred = x - x.mean(-1, keepdim=True)
    if not torch.allclose(torch.as_tensor(found.result), 2 * centred / centred.std(-1, keepdim=True), atol=1e-5):
        return "the result is not that of the starter."
    if not torch.equal(given, x):
        return "the input is still changed, so CUDA graphs would still be skipped."
    return None if len(found.graphs) == 1 else f"Dynamo made {len(found.graphs)} graphs of it."
