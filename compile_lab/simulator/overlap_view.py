"""Overlap as a reader sees it: rows of compute, of communication, and of what is exposed, over one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..page.figures import PALETTE, Figure, Plot, plot_text
from ..page.tables import Table
from ..page.units import rounded
from .overlap import Overlap, Span, Transfer, merged

STYLES = {
    "compute": ("grey", ""),
    "communication": ("blue", "/"),
    "waiting": ("orange", "."),
    "exposed": ("vermillion", "x"),
}
"""Each kind of row with its colour and, for a reader who does not see colours, its pattern."""

SMALLEST = 1 / 400
"""Of the time shown: spans that are closer to each other are drawn as one."""


def timeline(
    several: Overlap | Mapping[str, Overlap],
    caption: str = "",
    provenance: object | None = None,
    until_ms: float | None = None,
) -> Figure:
    """One step, or several below one another: its computation, each lane of communication, and the exposed part.

    Time counts from the start of the forward, or of the first span where the program marked none. The dotted line is
    where the last gradient was made. The table has what `summary` has; hover over a collective for its bytes. The part
    of a collective that is known to wait for another rank is drawn apart. With ``until_ms`` the axis ends there.
    """
    named = {"": several} if isinstance(several, Overlap) else dict(several)
    if not named:
        raise ValueError("nothing to draw: give at least one Overlap")
    longest = max(_end(overlap) - _zero(overlap) for overlap in named.values())
    rows: list[str] = []
    bars: dict[str, list[tuple[str, Span, str]]] = {kind: [] for kind in STYLES}
    shapes = []
    for name, overlap in named.items():
        first = len(rows)
        for row, kind, spans, texts in _rows(overlap, longest):
            label = f"{name}: {row}" if name else row
            rows += [label] * (label not in rows)
            bars[kind] += [(label, span, text) for span, text in zip(spans, texts, strict=True)]
        shapes += _end_of_gradients(overlap, first, len(rows))
    layout: dict[str, Any] = {
        "height": 110 + 26 * len(rows),
        "margin": {"l": 60, "r": 10, "t": 50, "b": 45},
        "barmode": "overlay",
        "bargap": 0.25,
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "ms"}, "range": [0, until_ms or rounded(1.01 * longest, 4)], "fixedrange": True},
        "yaxis": {"autorange": "reversed", "automargin": True, "fixedrange": True, "type": "category"},
        "shapes": shapes,
    }
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": [plot_text(row) for row in rows]}
    traces = [_trace(kind, spans) for kind, spans in bars.items() if spans]
    return Figure(Plot(traces, layout), _alt(named), caption, summary(named), provenance)


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


def _rows(overlap: Overlap, longest: float) -> list[tuple[str, str, Sequence[Span], Sequence[str]]]:
    """The rows of one overlap: label, kind, spans from the overlap's own zero, and the hover text of each."""
    zero = _zero(overlap)
    compute, exposed = (_coarse(_moved(spans, zero), longest) for spans in (overlap.compute, overlap.exposed))
    rows: list[tuple[str, str, Sequence[Span], Sequence[str]]] = [("compute", "compute", compute, [""] * len(compute))]
    lanes = sorted({each.lane for each in overlap.intervals})
    for lane in lanes:
        here = [each for each in overlap.intervals if each.lane == lane]
        spans = _moved([Span(each.start_ms + each.waiting_ms, each.end_ms) for each in here], zero)
        label = "wire" + (f" {lane + 1}" if len(lanes) > 1 else "")
        rows.append((label, "communication", spans, [_hover_text(each) for each in here]))
        waits = [Span(each.start_ms, each.start_ms + each.waiting_ms) for each in here if each.waiting_ms > 0]
        rows.append((label, "waiting", _moved(waits, zero), [""] * len(waits)))
    rows.append(("exposed", "exposed", exposed, [""] * len(exposed)))
    return rows


def _trace(kind: str, bars: Sequence[tuple[str, Span, str]]) -> dict[str, Any]:
    colour, pattern = STYLES[kind]
    marker: dict[str, Any] = {"color": PALETTE[colour], "line": {"width": 1, "color": "#FFFFFF"}}
    if pattern:
        marker["pattern"] = {"shape": pattern, "size": 6, "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.5}
    hover = {"hovertext": [text for _, _, text in bars]} if any(text for _, _, text in bars) else {}
    return dict(
        type="bar",
        name=kind,
        orientation="h",
        y=[plot_text(row) for row, _, _ in bars],
        base=[rounded(span.start_ms, 4) for _, span, _ in bars],
        x=[rounded(span.time_ms, 4) for _, span, _ in bars],
        hovertemplate=("%{hovertext} " if hover else "")
        + "%{x:.3g} ms from %{base:.4g}<extra>%{fullData.name}</extra>",
        marker=marker,
        **hover,
    )


def _end_of_gradients(overlap: Overlap, first: int, end: int) -> list[dict[str, Any]]:
    if "gradients" not in overlap.phases:
        return []
    at = rounded(overlap.phases["gradients"].end_ms - _zero(overlap), 4)
    place = {"x0": at, "x1": at, "y0": first - 0.5, "y1": end - 0.5}
    return [{"type": "line", **place, "line": {"dash": "dot", "width": 1.5, "color": PALETTE["grey"]}}]


def _alt(named: Mapping[str, Overlap]) -> str:
    sentences = "; ".join(
        f"{name + ': ' if name else ''}{len(overlap.intervals)} collectives take {overlap.communication_ms:.3g} ms, "
        f"{overlap.exposed_ms:.3g} ms of it exposed, in {overlap.span_ms:.3g} ms"
        for name, overlap in named.items()
    )
    return f"Compute, communication and its exposed part on a timeline. {sentences}."


def _zero(overlap: Overlap) -> float:
    if "forward" in overlap.phases:
        return overlap.phases["forward"].start_ms
    return min(overlap.compute[0].start_ms, overlap.communication[0].start_ms) if overlap.compute else 0.0


def _end(overlap: Overlap) -> float:
    return max(span.end_ms for span in (*overlap.compute, *overlap.communication))


def _moved(spans: Sequence[Span], zero: float) -> list[Span]:
    return [Span(start - zero, end - zero) for start, end in spans]


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
