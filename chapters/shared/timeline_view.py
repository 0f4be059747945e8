"""The host's and the GPU's lane as a reader sees them: who waits for whom, and where one line's kernel stands."""

from collections.abc import Sequence

from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import number, percent

from .experiments.timeline import CallTimeline

_LEFT, _WIDTH, _LANE, _GAP, _TITLE = 70, 920, 30, 8, 28
_LEAST = 0.8
"""So narrow a bar is still seen."""


def lanes(
    timelines: Sequence[CallTimeline], caption: str = "", provenance: object | None = None, mark: str = ""
) -> Drawing:
    """Two lanes for each timeline, on one scale of time: the host's launches above the GPU's kernels.

    Kernels whose name contains `mark` stand out. Raises ValueError without a timeline, and for one without kernels.
    """
    if not timelines:
        raise ValueError("nothing to draw: give at least one CallTimeline")
    if empty := [each for each in timelines if not each.kernels]:
        raise ValueError(f"the timeline of {empty[0].call}, {empty[0].mode} has no kernels: it was taken without a GPU")
    span = max(each.span_us for each in timelines)
    scale = _WIDTH / span
    canvas, top = Canvas(), 0.0
    for each in timelines:
        words = (
            f"{each.mode}: {len(each.kernels)} kernels, {len(each.launches)} launches, GPU busy {percent(_share(each))}"
        )
        canvas.words(0, top + 18, words, bold=True)
        top += _TITLE
        canvas.words(0, top + 21, "host")
        canvas.words(0, top + _LANE + _GAP + 21, "GPU")
        for lane in (top, top + _LANE + _GAP):
            canvas.box(_LEFT, lane, each.span_us * scale, _LANE, "grey", faint=True)
        for start, end in each.launches:
            canvas.box(_LEFT + start * scale, top, max(_LEAST, (end - start) * scale), _LANE, "orange")
        for kernel in each.kernels:
            colour = "vermillion" if mark and mark in kernel.name else "blue"
            left, width = _LEFT + kernel.start_us * scale, max(_LEAST, (kernel.end_us - kernel.start_us) * scale)
            canvas.box(left, top + _LANE + _GAP, width, _LANE, colour, title=kernel.name)
        top += 2 * _LANE + _GAP + 14
    step = _step(span)
    ticks = [(step * at / span, f"{step * at:g}") for at in range(int(span / step) + 1)]
    canvas.axis(_LEFT, top, _WIDTH, ticks, "µs from the first launch, under the profiler")
    names = {"the host launches": "orange", "the GPU computes": "blue", "it waits": "grey"}
    names |= {f"kernels of {mark}": "vermillion"} if mark else {}
    return Drawing(canvas.svg(), _alt(timelines), caption, compared(timelines), provenance, key(names))


def share_of(timeline: CallTimeline, mark: str) -> str:
    """A sentence: how often the kernels named by `mark` run, and their part of the GPU's work, and of the time."""
    marked = [kernel.end_us - kernel.start_us for kernel in timeline.kernels if mark in kernel.name]
    return (
        f"{timeline.mode}: the kernel with {mark} runs {len(marked)} times, {number(round(sum(marked), 1))} µs of the "
        f"{timeline.busy_us:.0f} µs that the GPU computes within {timeline.span_us:,.0f} µs."
    )


def compared(timelines: Sequence[CallTimeline]) -> Table:
    """One row a timeline: kernels, launches, how long the GPU was busy under the profiler, and the call without it."""
    rows: list[list[Cell]] = [
        [
            each.mode,
            len(each.kernels),
            len(each.launches),
            f"{number(each.busy_us)} µs",
            percent(_share(each)),
            f"{number(each.median_us)} µs ({number(each.low_us)} to {number(each.high_us)})",
        ]
        for each in timelines
    ]
    return Table(
        ["mode", "kernels", "launches", "GPU busy", "of the profiled time", "a call, unprofiled"], rows, align="lrrrrr"
    )


def _share(timeline: CallTimeline) -> float:
    return timeline.busy_us / timeline.span_us


def _alt(timelines: Sequence[CallTimeline]) -> str:
    told = [
        f"{each.mode}: {len(each.launches)} launches over {number(each.span_us)} µs, in which the GPU computes "
        f"{percent(_share(each))} of the time"
        for each in timelines
    ]
    return f"Lanes of the host and the GPU on one axis of time. {'; '.join(told)}."


def _step(span: float) -> float:
    """A round distance between ticks, of which five to twelve fit."""
    return next(step for power in range(7) for step in (10**power, 2 * 10**power, 5 * 10**power) if span / step <= 10)
