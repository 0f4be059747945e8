"""Predicted against measured peaks as a reader sees them: live, with the cause of each difference, and as recorded."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.memory import Lifetimes, Peak, differences
from compile_lab.memory_view import said, short
from compile_lab.panels import Table


def predictions(rows: Iterable[tuple[str, str, Lifetimes, Peak]]) -> Table:
    """Predicted against measured: one row for each (model, how it ran, lifetimes, allocator's peak).

    The last column names the cause of a difference: the operation in which the allocator peaks, where that is another
    one than predicted; else the operation with the largest difference, and its bytes.
    """
    cells = []
    for model, how, predicted, measured in rows:
        wanted, there = predicted.peak_bytes, measured.peak_bytes
        off = there - wanted
        cells.append((model, how, wanted, there, off, f"{100 * off / there:.2f} %", _cause(predicted, measured)))
    columns = ["model", "run", "predicted, bytes", "measured, bytes", "difference", "", "because of"]
    return Table(columns, cells, align="llrrrrl")


def _cause(predicted: Lifetimes, measured: Peak) -> str:
    if predicted.peak_bytes == measured.peak_bytes:
        return "–"
    at = predicted.timeline[predicted.peak_at].op
    if measured.at.startswith("aten.") and measured.at != at:
        return f"peaks inside {short(measured.at)}, not at {short(at)}"
    most = differences(predicted, measured)[0]
    return f"{short(most.op)} {most.measured_bytes - most.predicted_bytes:+,}"


def recorded(rows: Sequence[Mapping[str, Any]], provenance: object | None = None) -> Table:
    """One row for each of the recording: what is held after the forward, and the peak, predicted and measured."""
    cells = [
        (
            f"{row['model']}, {row['batch']} sequences",
            row["precision"],
            row["mode"],
            said(row["measured"]["held"]),
            said(row["predicted"]["peak"]),
            said(row["measured"]["peak"]),
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
