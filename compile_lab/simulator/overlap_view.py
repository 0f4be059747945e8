"""Overlap as a reader sees it: rows of compute, of communication, and of what is exposed, over one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..page.figures import PALETTE, Figure, plot_text
from ..page.tables import Table
from ..page.units import rounded
from .overlap import Overlap, Span, Transfer, merged

if TYPE_CHECKING:
    import plotly.graph_objects as go

STYLES = {
    "compute": ("grey", ""),
    "communication": ("blue", "/"),
    "waiting": ("orange", "."),
    "exposed": ("vermillion", "x"),
}
"""Each kind of row with its colour and, for a reader who does not see colours, its pattern."""

SMALLEST = 1 / 400
"""Of the time shown: spans that are closer to each other are drawn as one."""


def timeline(several: Overlap | Mapping[str, Overlap], caption: str = "", provenance: object | None = None) -> Figure:
    """One step, or several under each other: compute, each lane of communication, and what of it is exposed.

    Time counts from the start of the forward, or of the first span where the program marked none. The dotted line is
    where the last gradient was made. The table has what `summary` has; hover a collective for its bytes. What is known
    to be waiting for another rank is drawn apart from the communication.
    """
    import plotly.graph_objects as go

    named = {"": several} if isinstance(several, Overlap) else dict(several)
    if not named:
        raise ValueError("nothing to draw: give at least one Overlap")
    longest = max(_end(found) - _zero(found) for found in named.values())
    rows: list[str] = []
    bars: dict[str, list[tuple[str, Span, str]]] = {kind: [] for kind in STYLES}
    shapes = []
    for name, found in named.items():
        first = len(rows)
        for row, kind, spans, texts in _rows(found, longest):
            label = f"{name}: {row}" if name else row
            rows += [label] * (label not in rows)
            bars[kind] += [(label, span, text) for span, text in zip(spans, texts, strict=True)]
        shapes += _end_of_gradients(found, first, len(rows))
    layout: dict[str, Any] = {
        "height": 110 + 26 * len(rows),
        "margin": {"l": 60, "r": 10, "t": 50, "b": 45},
        "barmode": "overlay",
        "bargap": 0.25,
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "ms"}, "range": [0, rounded(1.01 * longest, 4)], "fixedrange": True},
        "yaxis": {"autorange": "reversed", "automargin": True, "fixedrange": True, "type": "category"},
        "shapes": shapes,
    }
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": [plot_text(row) for row in rows]}
    traces = [_trace(go, kind, found) for kind, found in bars.items() if found]
    return Figure(go.Figure(traces, layout), _alt(named), caption, summary(named), provenance)


def summary(several: Mapping[str, Overlap], caption: str = "") -> Table:
    """One row an overlap: collectives, their bytes, compute, communication, exposed, hidden, and the whole span."""
    rows = [
        (
            name or "one step",
            len(found.intervals),
            _sum_of_bytes(found.intervals),
            *(round(value, 2) for value in (found.compute_ms, found.communication_ms, found.exposed_ms)),
            f"{100 * found.fraction:.0f} %",
            round(found.span_ms, 2),
        )
        for name, found in several.items()
    ]
    columns = ["", "collectives", "MB", "compute, ms", "communication, ms", "exposed, ms", "hidden", "whole, ms"]
    return Table(columns, rows, caption, align="lrrrrrrr")


def collectives(found: Overlap, caption: str = "", most: int = 20) -> Table:
    """One row a collective, by start: when, how large, how much of it is hidden. The first `most` of them."""
    zero = _zero(found)
    rows = [
        (
            each.name,
            _megabytes(each.nbytes),
            *(round(value, 2) for value in (each.start_ms - zero, each.end_ms - zero, each.time_ms)),
            f"{100 * each.hidden:.0f} %",
        )
        for each in found.intervals[:most]
    ]
    if left := len(found.intervals) - len(rows):
        rows.append((f"and {left} more", None, None, None, None, ""))
    return Table(["collective", "MB", "start, ms", "end, ms", "time, ms", "hidden"], rows, caption, align="lrrrrr")


def _rows(found: Overlap, longest: float) -> list[tuple[str, str, Sequence[Span], Sequence[str]]]:
    """The rows of one overlap: label, kind, spans from its own zero, what each says when it is pointed at."""
    zero = _zero(found)
    compute, exposed = (_coarse(_moved(spans, zero), longest) for spans in (found.compute, found.exposed))
    rows: list[tuple[str, str, Sequence[Span], Sequence[str]]] = [("compute", "compute", compute, [""] * len(compute))]
    lanes = sorted({each.lane for each in found.intervals})
    for lane in lanes:
        here = [each for each in found.intervals if each.lane == lane]
        spans = _moved([Span(each.start_ms + each.waiting_ms, each.end_ms) for each in here], zero)
        label = "wire" + (f" {lane + 1}" if len(lanes) > 1 else "")
        rows.append((label, "communication", spans, [_said(each) for each in here]))
        waits = [Span(each.start_ms, each.start_ms + each.waiting_ms) for each in here if each.waiting_ms > 0]
        rows.append((label, "waiting", _moved(waits, zero), [""] * len(waits)))
    rows.append(("exposed", "exposed", exposed, [""] * len(exposed)))
    return rows


def _trace(go: Any, kind: str, bars: Sequence[tuple[str, Span, str]]) -> go.Bar:
    colour, pattern = STYLES[kind]
    marker: dict[str, Any] = {"color": PALETTE[colour], "line": {"width": 1, "color": "#FFFFFF"}}
    if pattern:
        marker["pattern"] = {"shape": pattern, "size": 6, "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.5}
    told = {"hovertext": [text for _, _, text in bars]} if any(text for _, _, text in bars) else {}
    return go.Bar(
        name=kind,
        orientation="h",
        y=[plot_text(row) for row, _, _ in bars],
        base=[rounded(span.start_ms, 4) for _, span, _ in bars],
        x=[rounded(span.time_ms, 4) for _, span, _ in bars],
        hovertemplate=("%{hovertext} " if told else "") + "%{x:.3g} ms from %{base:.4g}<extra>%{fullData.name}</extra>",
        marker=marker,
        **told,
    )


def _end_of_gradients(found: Overlap, first: int, end: int) -> list[dict[str, Any]]:
    if "gradients" not in found.phases:
        return []
    at = rounded(found.phases["gradients"].end_ms - _zero(found), 4)
    place = {"x0": at, "x1": at, "y0": first - 0.5, "y1": end - 0.5}
    return [{"type": "line", **place, "line": {"dash": "dot", "width": 1.5, "color": PALETTE["grey"]}}]


def _alt(named: Mapping[str, Overlap]) -> str:
    told = "; ".join(
        f"{name + ': ' if name else ''}{len(found.intervals)} collectives take {found.communication_ms:.3g} ms, "
        f"{found.exposed_ms:.3g} ms of it exposed, in {found.span_ms:.3g} ms"
        for name, found in named.items()
    )
    return f"Compute, communication and its exposed part on a timeline. {told}."


def _zero(found: Overlap) -> float:
    if "forward" in found.phases:
        return found.phases["forward"].start_ms
    return min(found.compute[0].start_ms, found.communication[0].start_ms) if found.compute else 0.0


def _end(found: Overlap) -> float:
    return max(span.end_ms for span in (*found.compute, *found.communication))


def _moved(spans: Sequence[Span], zero: float) -> list[Span]:
    return [Span(start - zero, end - zero) for start, end in spans]


def _coarse(spans: Sequence[Span], longest: float) -> list[Span]:
    """Spans with gaps that nobody would see closed: a step has hundreds of operators."""
    gap = longest * SMALLEST
    return [Span(start, end - gap) for start, end in merged(Span(start, end + gap) for start, end in spans)]


def _said(each: Transfer) -> str:
    size = "" if each.nbytes is None else f" {each.nbytes / 1e6:.3g} MB,"
    return f"{each.name},{size} {100 * each.hidden:.0f} % hidden:"


def _megabytes(nbytes: int | None) -> float | None:
    return None if nbytes is None else rounded(nbytes / 1e6, 4)


def _sum_of_bytes(intervals: Sequence[Transfer]) -> float | None:
    known = [each.nbytes for each in intervals if each.nbytes is not None]
    return _megabytes(sum(known)) if len(known) == len(intervals) else None
