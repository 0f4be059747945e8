"""The lifetimes of a step as a Gantt plot, under the curve of live bytes.

Here a bar's height is its buffer's bytes, so what a vertical line crosses adds up to what is alive at that operation.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..page.figures import PALETTE, Figure, plot_text
from ..page.units import rounded, unit_of, with_unit, without_namespace
from .ledger import KINDS, Lifetimes, Tensor
from .view import _annotation, _peak_phase, at_peak

if TYPE_CHECKING:
    import plotly.graph_objects as go

STYLES: dict[str, tuple[str, str]] = {
    "activation": ("blue", ""),
    "gradient": ("vermillion", "/"),
    "temporary": ("grey", "."),
    "optimizer state": ("purple", "x"),
    "parameter": ("green", "\\"),
    "input": ("sky", "-"),
}
"""Each kind of tensor with its colour and, for a reader who does not see colours, its pattern."""

SMALLEST = 0.004
"""Of all bytes that are ever made: a buffer below this share is drawn in one band with the others of its kind."""


def gantt(lifetimes: Lifetimes, caption: str = "", provenance: object | None = None, most: int | None = 12) -> Figure:
    """Every buffer from its birth to its death, one bar each and as high as its bytes, under the live bytes.

    The operations of the step run from left to right; the dashed line is the peak. One trace a kind, so that a click on
    the legend hides it. Buffers too small to be seen are drawn as one band a kind. The table has the ``most`` largest
    groups of ``at_peak``.
    """
    import plotly.graph_objects as go

    traces = [_curve(go, lifetimes), *_bars(go, lifetimes)]
    n, unit = len(lifetimes.timeline), unit_of(lifetimes.peak_nbytes)[0]
    layout: dict[str, Any] = {
        "height": 620,
        "margin": {"l": 60, "r": 10, "t": 70, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.06, "yanchor": "bottom"},
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        # The slider zooms: a drag on the plot itself would keep a finger from scrolling the page.
        "xaxis": {
            "title": {"text": "operation; the slider zooms"},
            "range": [-0.5, n - 0.5],
            "anchor": "y",
            "rangeslider": {"thickness": 0.06, "range": [-0.5, n - 0.5], "bgcolor": "rgba(122,122,122,0.1)"},
        },
        "yaxis": {
            "title": {"text": "buffers, by birth"},
            "domain": [0, 0.65],
            "autorange": "reversed",
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis2": {"title": {"text": f"live, {unit}"}, "domain": [0.71, 1], "rangemode": "tozero", "fixedrange": True},
        "shapes": _lines(lifetimes),
        "annotations": [*_phases(lifetimes), _peak_note(lifetimes)],
    }
    title = f"The peak, {with_unit(lifetimes.peak_nbytes)}, is in the {_peak_phase(lifetimes)}."
    plot = go.Figure(traces, layout)
    return Figure(plot, _gantt_alt(lifetimes), caption, at_peak(lifetimes, most), provenance, title)


# ---- the rows of the Gantt plot ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Row:
    """One bar: a buffer, or a band of small ones."""

    kind: str
    nbytes: int
    birth: int
    death: int
    told: str


def _rows(lifetimes: Lifetimes) -> list[_Row]:
    """The bars from top to bottom: buffers by birth, then the bands."""
    made = [each for each in lifetimes.tensors if each.nbytes and not each.is_resident]
    limit = SMALLEST * sum(each.nbytes for each in made)
    large = [each for each in made if each.nbytes >= limit]
    rows = [_Row(each.kind, each.nbytes, each.birth, each.death, _told(each)) for each in large]
    rows.sort(key=lambda row: (row.birth, -row.death))
    for kind in KINDS:
        if band := [each for each in made if each.kind == kind and each.nbytes < limit]:
            most = _most_alive(band)
            told = f"{len(band)} small buffers<br>at most {with_unit(most)} at a time"
            rows.append(_Row(kind, most, band[0].birth, max(each.death for each in band), told))
    return rows


def _most_alive(tensors: Sequence[Tensor]) -> int:
    changes: Counter[int] = Counter()
    for each in tensors:
        changes[each.birth] += each.nbytes
        changes[each.death + 1] -= each.nbytes
    return max(itertools.accumulate(changes[at] for at in sorted(changes)))


def _told(each: Tensor) -> str:
    line = f"<br>{plot_text(each.source)}" if each.source else ""
    shape = "×".join(map(str, each.shape)) or "scalar"
    return f"{plot_text(without_namespace(each.op))} · {shape} {each.dtype}<br>{with_unit(each.nbytes)}{line}"


def _bars(go: Any, lifetimes: Lifetimes) -> list[go.Bar]:
    rows, size = _rows(lifetimes), unit_of(lifetimes.peak_nbytes)[1]
    thinnest = SMALLEST * sum(row.nbytes for row in rows)
    heights = [max(row.nbytes, thinnest) / size for row in rows]
    bottoms = list(itertools.accumulate(heights))
    traces = []
    for kind in STYLES:
        chosen = [at for at, row in enumerate(rows) if row.kind == kind]
        if chosen:
            middles = [rounded(bottoms[at] - heights[at] / 2) for at in chosen]
            traces.append(
                _trace(go, [rows[at] for at in chosen], middles, [rounded(heights[at]) for at in chosen], lifetimes)
            )
    return traces


def _trace(go: Any, rows: list[_Row], middles: list[float], heights: list[float], lifetimes: Lifetimes) -> go.Bar:
    end = len(lifetimes.timeline)
    return go.Bar(
        name=rows[0].kind,
        orientation="h",
        base=[row.birth - 0.5 for row in rows],
        x=[min(row.death, end - 1) - row.birth + 1 for row in rows],
        y=middles,
        width=heights,
        marker=_filling(rows[0].kind),
        hovertext=[
            f"{row.told}<br>operation {row.birth} to {row.death if row.death < end else 'after the step'}"
            for row in rows
        ],
        hovertemplate="%{hovertext}",
    )


def _filling(kind: str) -> dict[str, Any]:
    colour, shape = STYLES[kind]
    filling: dict[str, Any] = {"color": PALETTE[colour], "line": {"width": 0.5, "color": "rgba(255,255,255,0.6)"}}
    if shape:
        pattern = {"shape": shape, "size": 6, "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.4}
        filling["pattern"] = pattern
    return filling


def _curve(go: Any, lifetimes: Lifetimes) -> go.Scatter:
    unit, size = unit_of(lifetimes.peak_nbytes)
    return go.Scatter(
        name="live bytes",
        showlegend=False,
        y=[rounded(moment.live_bytes / size) for moment in lifetimes.timeline],
        yaxis="y2",
        mode="lines",
        line={"shape": "hvh", "width": 1.5, "color": PALETTE["grey"]},
        fill="tozeroy",
        fillcolor="rgba(122,122,122,0.25)",
        text=[plot_text(without_namespace(moment.op)) for moment in lifetimes.timeline],
        hovertemplate="operation %{x}: %{text}<br>%{y} " + unit + "<extra></extra>",
    )


def _peak_note(lifetimes: Lifetimes) -> dict[str, Any]:
    late = lifetimes.peak_at > len(lifetimes.timeline) / 2
    return {
        "text": f" peak {with_unit(lifetimes.peak_nbytes)} ",
        "x": lifetimes.peak_at,
        "xanchor": "right" if late else "left",
        "yref": "paper",
        "y": 0.655,
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": PALETTE["orange"]},
    }


def _lines(lifetimes: Lifetimes) -> list[dict[str, Any]]:
    """Where the phase changes, solid; the peak, dashed."""
    phases = [moment.phase for moment in lifetimes.timeline]
    changes = [at - 0.5 for at in range(1, len(phases)) if phases[at] != phases[at - 1]]
    solid, dashed = {"width": 1, "color": PALETTE["grey"]}, {"width": 1.5, "color": PALETTE["orange"], "dash": "dash"}
    where = [(at, solid) for at in changes] + [(lifetimes.peak_at, dashed)]
    return [{"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line} for at, line in where]


def _phases(lifetimes: Lifetimes) -> list[dict[str, Any]]:
    """The name of each stretch of one phase, over its middle."""
    names: dict[str, list[int]] = defaultdict(list)
    for at, moment in enumerate(lifetimes.timeline):
        names[moment.phase].append(at)
    return [_annotation(phase, sum(places) / len(places)) for phase, places in names.items()]


def _gantt_alt(lifetimes: Lifetimes) -> str:
    made = sum(not each.is_resident for each in lifetimes.tensors)
    parts = ", ".join(f"{with_unit(nbytes)} of kind {kind}" for kind, nbytes in lifetimes.peak_by_kind().items())
    at_peak = without_namespace(lifetimes.timeline[lifetimes.peak_at].op)
    return (
        f"{made} buffers over {len(lifetimes.timeline)} operations. "
        f"Live bytes rise to {with_unit(lifetimes.held_nbytes)} at the end of the forward, are highest with "
        f"{with_unit(lifetimes.peak_nbytes)} in the {_peak_phase(lifetimes)} ({at_peak}), and end at "
        f"{with_unit(lifetimes.left_nbytes)}. At the peak: {parts}."
    )
