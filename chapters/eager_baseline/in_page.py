"""Exercises of chapter 00, the eager baseline."""

import random
from collections.abc import Callable

from compile_lab.simulator.issuing import Demand, issued

from ..exercises.judging import exercise, more_or_fewer

OPERATORS = 3
"""Below autograd, of the expression of 00.1: a test asks torch."""


@exercise("00.1", takes=int)
def predicted_operators(answer: int) -> str | None:
    """How many operators below autograd has ``x @ W.T + b`` for a matrix x?"""
    return more_or_fewer(answer, OPERATORS, "is every operator in it one that writes data?")


Call = tuple[float, tuple[float, ...]] | str


LINES: tuple[tuple[list[Call], str], ...] = (
    ([(5, (3,))], "a kernel starts once its launch has been issued."),
    ([(5, (3,)), (5, (3,))], "the GPU has nothing to do until the second launch has been issued."),
    ([(5, (20,)), (5, (3,))], "the GPU runs one kernel at a time, and the CPU does not wait for it."),
    ([(5, (3,)), (2, ())], "a view launches nothing, and takes the CPU's time."),
    ([(9, (4, 4, 4))], "one launch of a graph brings several kernels."),
    ([(5, (20,)), "item"], "item waits until the GPU is done."),
    ([(5, (20,)), "item", (5, (3,))], "after item nothing is queued: the GPU waits for the next launch."),
    ([(5, (3,)), (9, ()), "item", (5, (3,))], "item has nothing to wait for here: the GPU was done before it."),
    (["item"], "there is nothing to wait for."),
)
"""Calls of 00.5, each with the rule that it shows."""


def _ends(calls: list[Call]) -> tuple[float, float]:
    """When the CPU and the GPU are done: the queue of the explorer, begun anew after each wait."""
    start = cpu = gpu = 0.0
    segment: list[tuple[float, tuple[float, ...]]] = []
    for call in [*calls, "item"]:
        if not isinstance(call, str):
            segment.append(call)
            continue
        start = max(cpu, gpu)
        runs = issued(Demand("eager", *zip(*segment, strict=True))).runs if segment else ()
        cpu = start + sum(issue_us for issue_us, _ in segment)
        gpu = start + runs[-1].end_us if runs else gpu
        segment = []
    waits = bool(calls) and calls[-1] == "item"
    return (max(cpu, gpu) if waits else cpu), gpu


@exercise("00.5", takes=Callable)
def queue_of_launches(answer: Callable) -> str | None:
    """ends(calls): (cpu_us, gpu_us), when each is done with calls such as ``(5, (3,))`` and ``"item"``."""
    drawn = random.Random(0)
    some: list[Call] = [(9, (4, 4, 4)), (2, ()), "item"]
    cases: list[list[Call]] = [
        [drawn.choice([(drawn.randrange(1, 9), (drawn.randrange(1, 20),)), *some]) for _ in range(2 + at // 10)]
        for at in range(60)
    ]
    for calls, why in (*LINES, *((each, "follow it call by call.") for each in cases)):
        got, right = answer(list(calls)), _ends(calls)
        if not isinstance(got, tuple | list) or len(got) != 2 or not all(isinstance(us, int | float) for us in got):
            return f"it returns {got!r}: this asks for two times, (cpu_us, gpu_us)."
        for who, one, other in zip(("CPU", "GPU"), got, right, strict=True):
            if not abs(one - other) <= 1e-9:
                return f"for {calls} it has the {who} done too {'early' if one < other else 'late'}: {why}"
    return None
