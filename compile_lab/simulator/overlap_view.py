"""Overlap as a reader sees it: lanes of computation and of the wire on one axis of time, what is exposed marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..page.figures import Drawing
from ..page.marks import Axis, Row, Segment, segments
from ..page.tables import Table
from ..page.units import rounded, with_unit
from .overlap import Overlap, Span, Transfer, difference, intersection, merged

SMALLEST = 1 / 400
"""Of the time shown: spans of computation that are closer to each other are drawn as one."""
COLOURS = {
    "the device computes": "grey",
    "the wire carries, hidden": "blue",
    "exposed": "vermillion",
    "waiting for another rank": "orange",
}
COMPUTES, HIDDEN, EXPOSED, WAITING = COLOURS


def timeline(
    several: Overlap | Mapping[str, Overlap],
    caption: str = "",
    provenance: object | None = None,
    *,
    until_ms: float | None = None,
    backward: bool = False,
) -> Drawing:
    """Compute above, wire below, for one step or several on one axis of time; what is exposed stands out.

    Time counts from the start of the forward, or of the first span where the program marked none; with ``backward``,
    from the start of the gradients, and what comes before is left out. The part of a collective that is known to wait
    for another rank is drawn apart. The table has what `summary` has. With ``until_ms`` the axis ends there, so that
    drawings compare. Raises ValueError for no overlap, for one whose gradients are not marked although ``backward``
    asks for them, and for a step that does not end before ``until_ms``.
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
    rows, said = [], []
    for name, each in named.items():
        shown = [Span(zeros[name], zeros[name] + ends[name])]
        told = f"{each.exposed_ms:.2g} of {each.communication_ms:.2g} ms"
        said.append(f"{told} ({name})" if name else told)
        rows.append(Row("compute", list(_computed(each, shown, longest)), "", group=name))
        lanes = sorted({transfer.lane for transfer in each.intervals})
        for lane in lanes:
            carried = [part for transfer in each.intervals if transfer.lane == lane
                       for part in _carried(transfer, each.exposed, shown)]  # fmt: skip
            wire = f"wire {lane + 1}" if len(lanes) > 1 else "wire"
            rows.append(Row(wire, carried, "" if lane else f"exposed {told}", group=name))
    return segments(
        rows,
        Axis(unit="ms", until=until_ms),
        title=f"Exposed communication: {', '.join(said)}.",
        caption=caption,
        colours=COLOURS,
        provenance=provenance,
        table=summary(named),
    )


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


def _sum_of_bytes(intervals: Sequence[Transfer]) -> float | None:
    known = [each.nbytes for each in intervals if each.nbytes is not None]
    return rounded(sum(known) / 1e6, 4) if len(known) == len(intervals) else None


def _shown_until(overlap: Overlap, backward: bool) -> float:
    """With ``backward``, the optimizer is left out."""
    if not backward:
        return _end(overlap)
    return max(overlap.phases["gradients"].end_ms, overlap.communication[-1].end_ms)


def _computed(overlap: Overlap, shown: Sequence[Span], longest: float) -> Iterator[Segment]:
    """The device's spans, forward and backward apart, and named where they are one span each."""
    coarse = intersection(_coarse(overlap.compute, longest), shown)
    phases = {"forward": overlap.phases.get("forward"), "backward": overlap.phases.get("gradients")}
    known = {name: merged([span]) for name, span in phases.items() if span}
    for name, phase in known.items():
        parts = intersection(coarse, phase)
        yield from (_segment(COMPUTES, part, shown, name * (len(parts) == 1)) for part in parts)
    rest = difference(coarse, merged(span for phase in known.values() for span in phase))
    yield from (_segment(COMPUTES, part, shown) for part in rest)


def _carried(each: Transfer, exposed: Sequence[Span], shown: Sequence[Span]) -> Iterator[Segment]:
    """A collective: what it waits, what is hidden and what is exposed; the longest part tells its bytes."""
    sent = each.start_ms + each.waiting_ms
    waits, own = (intersection(merged([Span(*ends)]), shown) for ends in ((each.start_ms, sent), (sent, each.end_ms)))
    parts = [(WAITING, part) for part in waits if part.time_ms > 1e-3 * shown[0].time_ms]
    parts += [(HIDDEN, part) for part in difference(own, exposed)]
    parts += [(EXPOSED, part) for part in intersection(own, exposed)]
    size = "" if each.nbytes is None else with_unit(each.nbytes)
    longest = max((part for kind, part in parts if kind != WAITING), key=lambda part: part.time_ms, default=None)
    for kind, part in sorted(parts, key=lambda each: each[1]):
        told = part is longest
        hover = f"{_hover_text(each)} {sum(part.time_ms for part in own):.3g} ms" if told else ""
        yield _segment(kind, part, shown, size * told, hover)


def _segment(series: str, span: Span, shown: Sequence[Span], words: str = "", title: str = "") -> Segment:
    start = rounded(span.start_ms - shown[0].start_ms)
    return Segment(series, rounded(span.time_ms), start, words, title)
