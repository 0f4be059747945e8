"""Overlap as a reader sees it: lanes of computation and of the wire on one axis of time, what is exposed marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..page.canvas import DIGIT, Canvas, key, round_ticks
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import rounded
from .overlap import Overlap, Span, Transfer, intersection, merged, total_ms

SMALLEST = 1 / 400
"""Of the time shown: spans of computation that are closer to each other are drawn as one."""

LANES = {
    "the device computes": "grey",
    "the wire carries, hidden": "blue",
    "exposed (hatched)": "vermillion",
    "waiting for another rank (dashed)": "orange",
}
_LEFT, _RIGHT, _LANE, _APART = 110, 985, 34, 6
_LETTER = 16  # as wide as one is on a phone
_THINNEST, _TELLING = 3, 12
"""Widths of a bar, in units of the drawing: none is too short to be seen; from the second on it tells its bytes."""


def timeline(
    several: Overlap | Mapping[str, Overlap],
    caption: str = "",
    provenance: object | None = None,
    *,
    until_ms: float | None = None,
    backward: bool = False,
) -> Drawing:
    """Compute above, wire below, for one step or several on one axis of time; what is exposed is hatched, and named.

    Time counts from the start of the forward, or of the first span where the program marked none; with ``backward``,
    from the start of the gradients, and what comes before is left out. Bars too short to be seen are drawn wider. The
    part of a collective that is known to wait for another rank is drawn apart. The table has what `summary` has.
    With ``until_ms`` the axis ends there, so that drawings compare. Raises ValueError for no overlap, for one whose
    gradients are not marked although ``backward`` asks for them, and for a step that does not end before ``until_ms``.
    """
    named = {"": several} if isinstance(several, Overlap) else dict(several)
    if not named:
        raise ValueError("nothing to draw: give at least one Overlap")
    if backward and any("gradients" not in overlap.phases for overlap in named.values()):
        raise ValueError("backward=True: the spans of the gradients are not marked; leave backward out")
    zeros = {name: each.phases["gradients"].start_ms if backward else _zero(each) for name, each in named.items()}
    ends = {name: _shown_until(each, backward) - zeros[name] for name, each in named.items()}
    longest = max(ends.values())
    if until_ms is not None and until_ms < longest:
        raise ValueError(f"until_ms={until_ms}: the longest of these steps takes {longest:.4g} ms; end the axis later")
    canvas, until, top = Canvas(size=18), until_ms or longest, 0.0
    for name, overlap in named.items():
        top = _lanes_of(canvas, name, overlap, zeros[name], ends[name], top, (_RIGHT - _LEFT) / until)
    canvas.axis(_LEFT, top, _RIGHT - _LEFT, round_ticks(until, "ms"))
    waits = any(each.waiting_ms > 0 for overlap in named.values() for each in overlap.intervals)
    legend = key({name: colour for name, colour in LANES.items() if waits or colour != "orange"})
    return Drawing(canvas.svg(), _alt(named), caption, summary(named), provenance, legend)


def summary(several: Mapping[str, Overlap], caption: str = "") -> Table:
    """One row for each overlap: collectives, their bytes, computation, communication, exposed, hidden, whole span."""
    rows = [
        (
            name or "one step",
            len(overlap.intervals),
            _sum_of_bytes(overlap.intervals),
            *(round(value, 2) for value in (overlap.compute_ms, overlap.communication_ms, overlap.exposed_ms)),
            f"{100 * overlap.fraction:.0f} %",
            round(overlap.span_ms, 2),
        )
        for name, overlap in several.items()
    ]
    columns = ["", "collectives", "MB", "compute, ms", "communication, ms", "exposed, ms", "hidden", "whole, ms"]
    return Table(columns, rows, caption, align="lrrrrrrr")


def collectives(overlap: Overlap, caption: str = "", most: int = 20) -> Table:
    """One row for each of the first `most` collectives: when it ran, how large it is, how much of it is hidden."""
    zero = _zero(overlap)
    rows = [
        (
            each.name,
            _megabytes(each.nbytes),
            *(round(value, 2) for value in (each.start_ms - zero, each.end_ms - zero, each.time_ms)),
            f"{100 * each.hidden:.0f} %",
        )
        for each in overlap.intervals[:most]
    ]
    if left := len(overlap.intervals) - len(rows):
        rows.append((f"and {left} more", None, None, None, None, ""))
    return Table(["collective", "MB", "start, ms", "end, ms", "time, ms", "hidden"], rows, caption, align="lrrrrr")


def _alt(named: Mapping[str, Overlap]) -> str:
    sentences = "; ".join(
        f"{name + ': ' if name else ''}{count} collective{'s' * (count != 1)}, {overlap.communication_ms:.3g} ms "
        f"together, {overlap.exposed_ms:.3g} ms of it exposed, in {overlap.span_ms:.3g} ms"
        for name, overlap in named.items()
        for count in [len(overlap.intervals)]
    )
    return f"Compute, communication and its exposed part on a timeline. {sentences}."


def _zero(overlap: Overlap) -> float:
    if "forward" in overlap.phases:
        return overlap.phases["forward"].start_ms
    return min(overlap.compute[0].start_ms, overlap.communication[0].start_ms) if overlap.compute else 0.0


def _end(overlap: Overlap) -> float:
    return max(span.end_ms for span in (*overlap.compute, *overlap.communication))


def _coarse(spans: Sequence[Span], longest: float) -> list[Span]:
    """The spans, with gaps closed that are too small to be seen: a step has hundreds of operators."""
    gap = longest * SMALLEST
    return [Span(start, end - gap) for start, end in merged(Span(start, end + gap) for start, end in spans)]


def _hover_text(each: Transfer) -> str:
    size = "" if each.nbytes is None else f" {each.nbytes / 1e6:.3g} MB,"
    return f"{each.name},{size} {100 * each.hidden:.0f} % hidden:"


def _megabytes(nbytes: int | None) -> float | None:
    return None if nbytes is None else rounded(nbytes / 1e6, 4)


def _sum_of_bytes(intervals: Sequence[Transfer]) -> float | None:
    known = [each.nbytes for each in intervals if each.nbytes is not None]
    return _megabytes(sum(known)) if len(known) == len(intervals) else None


def _shown_until(overlap: Overlap, backward: bool) -> float:
    """With ``backward``, the optimizer is left out."""
    if not backward:
        return _end(overlap)
    return max(overlap.phases["gradients"].end_ms, overlap.communication[-1].end_ms)


def _lanes_of(canvas: Canvas, name: str, overlap: Overlap, zero: float, end: float, top: float, scale: float) -> float:
    """One step's rows; returns where the next may begin."""
    shown = [Span(zero, zero + end)]

    def place(span: Span) -> tuple[float, float]:
        return _LEFT + (span.start_ms - zero) * scale, max(_THINNEST, span.time_ms * scale)

    count = len(overlap.intervals)
    told = (
        f"{count} collective{'s' * (count != 1)}, exposed {overlap.exposed_ms:.2g} of {overlap.communication_ms:.2g} ms"
    )
    canvas.words(_LEFT, top + 20, name, size=20, bold=True)
    canvas.words(_RIGHT, top + 20, told, anchor="end", size=20)
    top += 32
    canvas.words(0, top + 24, "compute")
    canvas.bars(top, _LANE, [place(span) for span in _coarse(intersection(overlap.compute, shown), end)], "grey")
    _phases(canvas, overlap, shown, top, place)
    top += _LANE + _APART
    used = sorted({each.lane for each in overlap.intervals})
    for lane in used:
        canvas.words(0, top + 24, "wire" + (f" {lane + 1}" if len(used) > 1 else ""))
        for each in overlap.intervals:
            if each.lane == lane:
                _collective(canvas, each, overlap.exposed, top, place)
        top += _LANE + _APART
    if marked := _coarse(intersection(overlap.exposed, shown), end):
        canvas.words(0, top + 18, "exposed", colour="vermillion", bold=True)
        for span in marked:
            left, width = place(span)
            canvas.line([(left, top), (left, top + 8), (left + width, top + 8), (left + width, top)], "vermillion")
        longest = max(marked, key=lambda span: span.time_ms)
        left, width = place(longest)
        words = f"{total_ms(intersection(overlap.exposed, [longest])):.2g} ms"
        right = min(max(left + width, _LEFT + _LETTER * len(words)), _RIGHT)  # not over the row's name
        canvas.words(right, top + 27, words, anchor="end", colour="vermillion", bold=True)
        top += 30
    return top + 14


def _phases(
    canvas: Canvas, overlap: Overlap, shown: list[Span], top: float, place: Callable[[Span], tuple[float, float]]
) -> None:
    """The names of forward and backward, where their computation has no gap to hide them."""
    for name, phase in (("forward", "forward"), ("backward", "gradients")):
        for span in intersection([overlap.phases[phase]] if phase in overlap.phases else [], shown):
            left, width = place(span)
            computed = total_ms(intersection(overlap.compute, [span]))
            if computed > 0.99 * span.time_ms and len(name) * DIGIT * 18 < width:
                canvas.words(left + width / 2, top + 23, name, anchor="middle", colour="#FFFFFF")
                canvas.line([(left + width, top), (left + width, top + _LANE)], "#FFFFFF", thick=2)


def _collective(
    canvas: Canvas, each: Transfer, exposed: Sequence[Span], top: float, place: Callable[[Span], tuple[float, float]]
) -> None:
    """A bar with its bytes, if they fit; over it, hatched, what is exposed; before it, dashed, what is waiting."""
    own = Span(each.start_ms + each.waiting_ms, each.end_ms)
    left, width = place(own)
    if width < _TELLING:
        bare = intersection([own], exposed)
        canvas.bars(top, _LANE, [(left, max(1, width - 1))], "vermillion" if bare else "blue")
    else:
        canvas.box(left, top, width - 1, _LANE, "blue", title=f"{_hover_text(each)} {own.time_ms:.3g} ms")
        for span in intersection([own], exposed):
            _hatched(canvas, *place(span), top)
    start, wide = place(Span(each.start_ms, own.start_ms))
    if each.waiting_ms > 0 and wide > 2 * _THINNEST:
        canvas.box(start, top, wide, _LANE, "orange", title=f"waits: {each.waiting_ms:.3g} ms", dashed=True)
    size = "" if each.nbytes is None else f"{each.nbytes / 1e6:.3g} MB"
    if not intersection([own], exposed) and size and len(size) * DIGIT * 15 < width - 6:
        canvas.words(left + width / 2, top + 22, size, anchor="middle", size=15, colour="#FFFFFF")


def _hatched(canvas: Canvas, left: float, width: float, top: float) -> None:
    canvas.bars(top, _LANE, [(left, width - 1)], "vermillion")
    feet = [left + 9 * at for at in range(1, int(width / 9))]
    ends = [(foot + 6 * (at % 2), top + _LANE * (at % 2)) for foot in feet for at in (0, 1)]
    if ends:
        canvas.line(ends, "#FFFFFF", thick=1)
