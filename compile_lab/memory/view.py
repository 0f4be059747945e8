"""Lifetimes and peaks as a reader sees them: what is alive at the peak, comparisons, predicted against measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..page.figures import PALETTE, Figure, plot_text
from ..page.tables import Cell, Table
from ..page.units import rounded, unit_of, with_unit, without_namespace
from .differences import differences
from .ledger import KINDS, PHASES, Lifetimes, Tensor
from .measured import Peak

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def summary(lifetimes: Lifetimes) -> str:
    """One sentence: the peak, where it is, what is kept for the backward, and what was there before."""
    at = lifetimes.timeline[lifetimes.peak_at]
    line = f", {at.source}" if at.source else ""
    return (
        f"The peak is **{with_unit(lifetimes.peak_nbytes)}**, in the {at.phase}, "
        f"at `{without_namespace(at.op)}`{line}. "
        f"{with_unit(lifetimes.held_nbytes)} are alive between forward and backward. "
        f"All these bytes come on top of {with_unit(lifetimes.resident_nbytes)} that were there before."
    )


def at_peak(lifetimes: Lifetimes, most: int | None = None) -> Table:
    """What is alive at the peak: tensors of one kind, operation and line in one row, the largest first.

    ``most`` rows, with what is left summed in one more.
    """
    alive = lifetimes.alive_at(lifetimes.peak_at)
    rows = [(group[0], len(group), sum(each.nbytes for each in group)) for group in _alike(alive)]
    rows.sort(key=lambda row: -row[2])
    shown, rest = rows[:most], rows[len(rows[:most]) :]
    total = lifetimes.peak_nbytes or 1
    cells: list[tuple[Cell, ...]] = [
        (one.kind, without_namespace(one.op), _place(one), count, nbytes, f"{100 * nbytes / total:.1f} %")
        for one, count, nbytes in shown
    ]
    if rest:
        left = sum(row[2] for row in rest)
        cells.append(("all others", "", "", sum(row[1] for row in rest), left, f"{100 * left / total:.1f} %"))
    return Table(["alive at the peak", "made by", "line", "×", "bytes", "share"], cells, align="lllrrr")


def kinds_at_peak(several: Mapping[str, Lifetimes]) -> Table:
    """One row a set of lifetimes: bytes of each kind alive at its peak, the peak, and where it is."""
    columns = [kind for kind in KINDS if any(kind in found.peak_by_kind() for found in several.values())]
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            *(found.peak_by_kind().get(kind, 0) for kind in columns),
            found.peak_nbytes,
            f"{found.timeline[found.peak_at].phase}, {without_namespace(found.timeline[found.peak_at].op)}",
        )
        for name, found in several.items()
    ]
    return Table(["", *columns, "peak, bytes", "at"], rows, align="l" + "r" * (len(columns) + 1) + "l")


def after_forward(lifetimes: Lifetimes) -> float:
    """How much of what follows the forward has run when the peak comes, from 0 to 1; 0 for a peak in the forward."""
    forward = sum(moment.phase == "forward" for moment in lifetimes.timeline)
    return max(0, lifetimes.peak_at - forward + 1) / max(1, len(lifetimes.timeline) - forward)


def peaks(several: Mapping[str, Lifetimes]) -> Table:
    """One row a set of lifetimes: what is alive between the passes, the peak, and how far behind the forward it is."""
    rows = []
    for name, found in several.items():
        at = found.timeline[found.peak_at]
        ratio = f"{found.peak_nbytes / found.held_nbytes:.2f}×" if found.held_nbytes else None
        place = f"{at.phase}, {without_namespace(at.op)}"
        rows.append((name, found.held_nbytes, found.peak_nbytes, ratio, place, f"{100 * after_forward(found):.0f} %"))
    columns = ["step", "alive between the passes, bytes", "peak, bytes", "ratio", "at", "after the forward"]
    return Table(columns, rows, align="lrrrlr")


def curves(several: Mapping[str, Lifetimes], caption: str = "", provenance: object | None = None) -> Figure:
    """Live bytes of several steps in one plot. Each pass is drawn as wide as the others, whatever its operations.

    The forward goes from 0 to 1, the backward from 1 to 2, an optimizer step from 2 to 3.
    """
    import plotly.graph_objects as go

    if not several:
        raise ValueError("nothing to draw: give at least one Lifetimes")
    unit, size = unit_of(max(found.peak_nbytes for found in several.values()))
    traces = [
        go.Scatter(
            name=plot_text(name),
            x=_progress(found),
            y=[rounded(moment.live_bytes / size) for moment in found.timeline],
            mode="lines",
            line={
                "shape": "hv",
                "width": 2,
                "color": list(PALETTE.values())[at % len(PALETTE)],
                "dash": _DASHES[at % len(_DASHES)],
            },
            text=[plot_text(without_namespace(moment.op)) for moment in found.timeline],
            hovertemplate="%{text}: %{y} " + unit + "<extra>%{fullData.name}</extra>",
        )
        for at, (name, found) in enumerate(several.items())
    ]
    phases = [phase for phase in PHASES if any(each.phase == phase for f in several.values() for each in f.timeline)]
    layout = {
        "height": 360,
        "margin": {"l": 60, "r": 20, "t": 60, "b": 30},
        "legend": {"orientation": "h", "x": 0, "y": 1.08, "yanchor": "bottom"},
        "xaxis": {"range": [0, len(phases)], "showticklabels": False, "tickvals": list(range(len(phases) + 1))},
        "yaxis": {"title": {"text": f"live, {unit}"}, "rangemode": "tozero"},
        "annotations": [_annotation(phase, at + 0.5) for at, phase in enumerate(phases)],
    }
    peaks = "; ".join(
        f"{name} {with_unit(found.peak_nbytes)} in the {_peak_phase(found)}" for name, found in several.items()
    )
    alt = f"Live bytes through {' and '.join(phases)}. The peaks: {peaks}."
    title = f"The peak is {', '.join(f'{with_unit(found.peak_nbytes)} ({name})' for name, found in several.items())}."
    table = Table(
        ["", "peak", "in the", "held for the backward"],
        [(name, found.peak_nbytes, _peak_phase(found), found.held_nbytes) for name, found in several.items()],
        align="lrlr",
    )
    return Figure(go.Figure(traces, layout), alt, caption, table, provenance, title)


def _annotation(text: str, x: float) -> dict[str, Any]:
    return {"text": text, "x": rounded(x), "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False}


# ---- small things --------------------------------------------------------------------------------------------------
def _alike(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Tensors of one kind, operation and line together."""
    groups: dict[tuple[object, ...], list[Tensor]] = defaultdict(list)
    for each in tensors:
        place = (each.source.file, each.source.line) if each.source else None
        groups[each.kind, each.op, place].append(each)
    return list(groups.values())


def _progress(lifetimes: Lifetimes) -> list[float]:
    """For each operation, how far its phase is, on top of the phases before it."""
    count = {phase: sum(each.phase == phase for each in lifetimes.timeline) for phase in PHASES}
    present = [phase for phase in PHASES if count[phase]]
    seen = dict.fromkeys(present, 0)
    places = []
    for moment in lifetimes.timeline:
        places.append(round(present.index(moment.phase) + seen[moment.phase] / count[moment.phase], 4))
        seen[moment.phase] += 1
    return places


def _peak_phase(lifetimes: Lifetimes) -> str:
    return lifetimes.timeline[lifetimes.peak_at].phase


def _place(each: Tensor) -> str:
    return str(each.source) if each.source else "–"


def predictions(rows: Iterable[tuple[str, str, Lifetimes, Peak]]) -> Table:
    """Predicted against measured: one row for each (model, how it ran, lifetimes, allocator's peak).

    The last column names the cause of a difference: the operation in which the allocator peaks, where that is another
    one than predicted; else the operation with the largest difference, and its bytes.
    """
    cells = []
    for model, how, predicted, measured in rows:
        wanted, there = predicted.peak_nbytes, measured.peak_nbytes
        off = there - wanted
        cells.append((model, how, wanted, there, off, f"{100 * off / there:.2f} %", _cause(predicted, measured)))
    columns = ["model", "run", "predicted, bytes", "measured, bytes", "difference", "", "because of"]
    return Table(columns, cells, align="llrrrrl")


def _cause(predicted: Lifetimes, measured: Peak) -> str:
    if predicted.peak_nbytes == measured.peak_nbytes:
        return "–"
    at = predicted.timeline[predicted.peak_at].op
    if measured.at.startswith("aten.") and measured.at != at:
        return f"peaks inside {without_namespace(measured.at)}, not at {without_namespace(at)}"
    most = differences(predicted, measured)[0]
    return f"{without_namespace(most.op)} {most.measured_nbytes - most.predicted_nbytes:+,}"


def recorded(rows: Sequence[Mapping[str, Any]], provenance: object | None = None) -> Table:
    """One row for each of the recording: what is held after the forward, and the peak, predicted and measured."""
    cells = [
        (
            f"{row['model']}, {row['batch']} sequences",
            row["precision"],
            row["mode"],
            with_unit(row["measured"]["held"]),
            with_unit(row["predicted"]["peak"]),
            with_unit(row["measured"]["peak"]),
            row["measured"]["peak"] - row["predicted"]["peak"],
        )
        for row in rows
    ]
    caption = "" if provenance is None else str(provenance)
    columns = ["model", "precision", "run", "held", "predicted peak", "measured peak", "difference, bytes"]
    return Table(columns, cells, caption, "lllrrrr")


def error(row: Mapping[str, Any]) -> float:
    """Of one recorded row, how much more was measured than predicted, as a share of what was measured."""
    return (row["measured"]["peak"] - row["predicted"]["peak"]) / row["measured"]["peak"]
