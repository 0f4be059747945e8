"""The recording ``simple_fsdp`` as a reader sees it: the step in each way, what of it only waits, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..doors import door
from ..page.canvas import Canvas, key, round_ticks
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import in_gb, with_quartiles

PEER, PLAIN = "FSDP2, compiled blocks", "as it is"
BUCKETS = ("in buckets, reordered", "in buckets, scattered once", "bucketed", "scheduled in buckets")
_LEFT, _ROW, _HIGH = 330, 34, 22
_COLOURS = {"FSDP2": "grey", "SimpleFSDP": "blue"}
_EXPOSED = "orange"

ShardedRun = Mapping[str, Any]


def slowest(run: ShardedRun) -> Mapping[str, Any]:
    """The row of the rank whose median step is longest: the others wait for it."""
    row: Mapping[str, Any] = max(run["by_rank"], key=lambda row: row["step_ms"])
    return row


def sent(run: ShardedRun) -> tuple[int, int]:
    """Collectives of a profiled step of rank 0, and their bytes."""
    collectives = (run["timeline"] or {"collectives": []})["collectives"]
    return len(collectives), sum(each["nbytes"] or 0 for each in collectives)


@door
def claimed(result: Mapping[str, Any]) -> tuple[bool, ...]:
    """The two parts of claim C56: as it is, slower than FSDP2 with compiled blocks; in buckets, no slower than it.

    Slower means that the quartiles do not meet. Raises ValueError where a way that this takes was stopped.
    """
    runs = {run["way"]: slowest(run) for run in result["runs"]}
    buckets = [runs[name] for name in BUCKETS if name in runs]
    if PEER not in runs or PLAIN not in runs or not buckets:
        raise ValueError(f"the claim takes {PEER!r}, {PLAIN!r} and one of {', '.join(BUCKETS)}; there is {list(runs)}")
    best = min(buckets, key=lambda row: row["step_ms"])
    return runs[PLAIN]["low_ms"] > runs[PEER]["high_ms"], best["low_ms"] <= runs[PEER]["high_ms"]


@door
def steps(result: Mapping[str, Any], caption: str = "", provenance: object | None = None) -> Drawing:
    """A bar a way: the median step of the slower rank, its quartiles as a line, and at its end what is exposed in one.

    Raises ValueError for a recording without runs.
    """
    runs = result["runs"]
    if not runs:
        raise ValueError("no way was measured, so there is nothing to draw: the recording's `stopped` says why")
    rows = [slowest(run) for run in runs]
    canvas, end = Canvas(), max(row["high_ms"] for row in rows)
    scale = (canvas.width - _LEFT - 12) / end
    said = []
    for at, (run, row) in enumerate(zip(runs, rows, strict=True)):
        top, wide = _ROW * at, scale * row["step_ms"]
        exposed = min(row["exposed_ms"], row["step_ms"])
        name, count = _name(run), sent(run)[0]
        told = f"{name}: {row['step_ms']:.1f} ms, {exposed:.1f} ms of it exposed, {count} collectives"
        canvas.words(_LEFT - 12, top + 17, name, anchor="end", size=16)
        colour = _COLOURS["SimpleFSDP" if run["simple"] else "FSDP2"]
        canvas.box(_LEFT, top, wide, _HIGH, colour, title=told)
        canvas.box(_LEFT + wide - scale * exposed, top, scale * exposed, _HIGH, _EXPOSED, title=told)
        middle = top + _HIGH / 2
        canvas.line([(_LEFT + scale * row[key], middle) for key in ("low_ms", "high_ms")], thick=3)
        said.append(told)
    canvas.axis(_LEFT, _ROW * len(runs) + 4, canvas.width - _LEFT - 12, round_ticks(end, "ms"))
    legend = key(_COLOURS | {"exposed communication in a profiled step": _EXPOSED})
    return Drawing(canvas.svg(), "; ".join(said) + ".", caption, table(result), provenance, legend)


@door
def table(result: Mapping[str, Any], caption: str = "", folded: str = "The same as a table") -> Table:
    """One row a way: collectives, the step with its quartiles, what is exposed, memory, the gradients' error."""
    rows = []
    for run in result["runs"]:
        row, (count, nbytes) = slowest(run), sent(run)
        peak = None if run["peak_nbytes"] is None else in_gb(run["peak_nbytes"])
        step = with_quartiles(*(round(row[key], 2) for key in ("step_ms", "low_ms", "high_ms")))
        rows.append(
            (
                *(_name(run), count, in_gb(nbytes), step, f"{row['exposed_ms']:.2f}"),
                *(peak, f"{run['gradient_error']:.1e}", f"{run['compile_s']:.1f}"),
            )
        )
    columns = ["", "collectives", "bytes", "step, ms", "exposed, ms", "peak", "gradients off by", "first step, s"]
    return Table(columns, rows, caption, align="lrrrrrrr", folded=folded)


def _name(run: ShardedRun) -> str:
    return f"SimpleFSDP, {run['way']}" if run["simple"] and "FSDP" not in run["way"] else run["way"]
