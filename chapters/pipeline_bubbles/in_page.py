"""Exercises of chapter 12, pipeline bubbles."""

from collections.abc import Callable
from fractions import Fraction

from compile_lab.page.units import percent
from compile_lab.simulator.pipeline import closed_form, simulate
from compile_lab.simulator.pipeline_arranged import lean_fault

from ..exercises.judging import exercise


@exercise("12.1", takes=Callable)
def bubble_of(answer: Callable) -> str | None:
    """bubble(ranks, microbatches, forward, backward): GPipe's bubble as a share of the step."""
    for ranks, microbatches, forward, backward in ((1, 4, 1, 2), (4, 1, 1, 2), (4, 8, 1, 1), (8, 32, 2, 5)):
        found = simulate("GPipe", ranks, microbatches, forward=forward, input_grad=backward, weight_grad=0)
        got = answer(ranks, microbatches, forward, backward)
        if not isinstance(got, int | float | Fraction):
            return f"it returns a {type(got).__name__}: this asks for a number, the share of all ranks' time."
        case = f"ranks={ranks}, microbatches={microbatches}, forward={forward}, backward={backward}"
        if abs(got - found.bubble_fraction) > 1e-9:
            much = "much" if got > found.bubble_fraction else "little"
            return f"for {case} it says {float(got):.4f}, which is too {much}."
    return None


@exercise("12.2", takes=Callable)
def fewest_microbatches(answer: Callable) -> str | None:
    """fewest(ranks, most): the smallest number of micro-batches with which 1F1B's bubble is at most ``most``."""
    for ranks, most in ((2, Fraction(1, 2)), (4, Fraction(1, 10)), (16, Fraction(1, 20)), (64, Fraction(1, 100))):
        got = answer(ranks, most)
        if not isinstance(got, int) or isinstance(got, bool):
            return f"it returns {got!r}: this asks for a whole number."
        if got < 1 or (closed_form("1F1B", ranks, got) or 0) > most:
            return f"with {got} micro-batches on {ranks} ranks the bubble is above {percent(float(most))}."
        if got > 1 and (closed_form("1F1B", ranks, got - 1) or 0) <= most:
            return f"for {ranks} ranks and {percent(float(most))}, fewer than {got} would do."
    return None


@exercise("12.3", takes=Callable)
def lean_order(answer: Callable) -> str | None:
    """order(rank, ranks, microbatches): a schedule that holds at most ``ranks`` activations, no slower than GPipe."""
    for ranks, microbatches in ((2, 6), (4, 8), (4, 2)):
        if wrong := lean_fault([list(answer(rank, ranks, microbatches)) for rank in range(ranks)], ranks, microbatches):
            return wrong
    return None


LAYERS, STAGES, HEAD = 16, 4, 3
"""Of the model in exercise 12.4; the head takes as long as so many layers."""


@exercise("12.4")
def balanced(answer: list) -> str | None:
    """Layers for each of 4 stages, 16 in all, with a head on the last as slow as 3 layers: the quickest step."""
    if not isinstance(answer, list | tuple) or not all(isinstance(each, int) for each in answer):
        return "this asks for a list of whole numbers, one for each stage."
    if len(answer) != STAGES or sum(answer) != LAYERS or min(answer) < 0:
        return f"it has {sum(answer)} layers on {len(answer)} stages; the model has {LAYERS}, for {STAGES}."
    cost = [*answer[:-1], answer[-1] + HEAD]
    best = -(-(LAYERS + HEAD) // STAGES)
    if max(cost) > best:
        return f"stage {cost.index(max(cost))} takes as long as {max(cost)} layers, and all others wait for it."
    return None


@exercise("12.5", takes=Callable)
def step_of_split(answer: Callable) -> str | None:
    """step(before, after, more): the step with a split backward as a part of the step with a whole one."""
    for microbatches, more in ((8, 0.0), (8, 0.1), (32, 0.5)):
        whole = simulate("1F1B", 4, microbatches, forward=2, input_grad=2, weight_grad=2)
        split = simulate("ZBVZeroBubble", 8, microbatches, forward=1, input_grad=1 + more, weight_grad=1 + more)
        before, after = whole.bubble_fraction, split.bubble_fraction
        got = answer(before, after, more)
        if not isinstance(got, int | float | Fraction):
            return f"it returns a {type(got).__name__}: this asks for a number, such as 0.9."
        right = split.span / whole.span
        if abs(got - right) > 1e-9:
            much = "much" if got > right else "little"
            case = f"a bubble of {percent(before, 1)} before, {percent(after, 1)} after"
            case = f"{case}, and halves that take {percent(more)} longer"
            return f"for {case} it says {float(got):.3f}, which is too {much}."
    return None
