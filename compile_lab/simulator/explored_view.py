"""What a reader explores at any value: panels that the book's pages compute, too, from plain arguments.

A panel here is a function of texts and numbers, as an explorer's controls give them. It raises ValueError, as the
instruments do, for what they refuse: the explorer shows the message.
"""

from __future__ import annotations

from ..page.figures import Drawing
from ..page.tables import Table
from . import pipeline_view
from .meshes import check_whole
from .pipeline import SCHEDULES, Timeline, check_pairs, simulate

AXES = tuple(end * 2**doubled for doubled in range(20) for end in (36, 54))
"""Where an axis of time may end, in forwards: few places, so that one scale serves many choices."""

MOST_BARS, MOST_RANKS = 20_000, 32
"""Of one picture. More of them nobody can tell apart, and drawing them takes longer than simulating."""


def pipeline(
    schedule: str,
    beside: str,
    ranks: int,
    micro_batches: int,
    backward: float,
    transfer: float,
    last_stage_longer_by: float,
) -> list[str | Drawing | Table]:
    """Two schedules on one axis of time, and what each costs: how long ranks wait, what they hold, what they send.

    The unit of time, F, is the forward of all of a rank's layers for one micro-batch, however many stages they make.
    ``backward`` is the whole one; half of it goes for the gradient of the input. The last stage, which has a language
    model's head, takes ``last_stage_longer_by`` more for its forward, and as many times more for its backward.
    """
    check_whole("ranks", ranks), check_whole("micro_batches", micro_batches)
    several = {}
    for name in dict.fromkeys((schedule, beside)):
        on_each = SCHEDULES[name]
        stages = ranks * on_each
        check_pairs(stages, micro_batches)
        parts = [1 / on_each] * (stages - 1) + [1 / on_each + last_stage_longer_by]
        halves = [backward / 2 * part for part in parts]
        times = {"forward": parts, "input_grad": halves, "weight_grad": halves, "transfer": transfer}
        several[name] = simulate(name, stages, micro_batches, **times)
    return [_noticed(list(several.values())), *_picture(several), pipeline_view.compared(several)]


def _picture(several: dict[str, Timeline]) -> list[str | Drawing]:
    bars = sum(len(each.actions) for each in several.values())
    ranks = max(each.ranks for each in several.values())
    if bars > MOST_BARS or ranks > MOST_RANKS:
        return [f"{bars:,} actions on {ranks} ranks are more than can be seen in a picture. The numbers are exact:"]
    longest = max(each.span for each in several.values())
    until = next(end for end in AXES if end >= longest)
    return [pipeline_view.bubbles(several, unit="F", until=until, table=False)]


def _noticed(timelines: list[Timeline]) -> str:
    """One sentence: which is quicker, and what it pays in memory."""
    quick, *rest = sorted(timelines, key=lambda each: (each.span, max(each.held_microbatches)))
    said = f"**{quick.schedule}** takes {quick.span:.4g} F, and its ranks wait {quick.bubble_fraction:.1%} of it"
    if not rest:
        return f"{said}; a rank holds up to {max(quick.held_microbatches):g} micro-batches."
    slow = rest[0]
    held, other = (max(each.held_microbatches) for each in (quick, slow))
    longer = slow.span / quick.span - 1
    takes = f"takes {longer:.1%} longer" if longer > 5e-4 else "takes as long"
    holds = f"{other:g} instead of {held:g} micro-batches" if other != held else f"as many micro-batches, {held:g}"
    return f"{said}. {slow.schedule} {takes}; its fullest rank holds {holds}."
