"""Which ways of training fit into a GPU's memory, and what a step of each takes."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.page.canvas import WIDTH, Canvas, round_ticks
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles, with_unit

Row = Mapping[str, Any]
LEFT, RIGHT, ROW = 190.0, 190.0, 44.0


def step_ms(way: Row) -> tuple[float, float, float]:
    """The median and the quartiles of a way's steps after the first. ValueError for a way that did not fit."""
    if len(way["step_ms"]) < 2:
        raise ValueError(f"the way {way['way']!r} has no two steps to time: {way['stopped'] or 'none was recorded'}")
    low, median, high = statistics.quantiles(way["step_ms"], n=4)
    return median, low, high


def fits(result: Mapping[str, Any], provenance: object | None = None) -> Drawing:
    """A bar a way, as long as what it took at most, and a line where the GPU's memory ends."""
    total, ways = result["memory_nbytes"], result["ways"]
    until = 1.12 * total

    def x(nbytes: float) -> float:
        return LEFT + nbytes / until * (WIDTH - LEFT - RIGHT)

    canvas, bottom = Canvas(), ROW * len(ways)
    for at, way in enumerate(ways):
        y = at * ROW + 6
        canvas.words(0, y + 22, way["way"])
        if way["stopped"]:
            canvas.box(
                LEFT, y, x(until) - LEFT, ROW - 14, "vermillion", "out of memory", title=way["stopped"], faint=True
            )
        else:
            peak = way["peak_nbytes"]
            canvas.box(LEFT, y, x(peak) - LEFT, ROW - 14, "blue", with_unit(peak), title=f"{way['way']}: {peak:,} B")
            canvas.words(x(until) + 14, y + 22, f"{step_ms(way)[0]:,.0f} ms a step")
    canvas.line([(x(total), 0), (x(total), bottom)], "ink", thick=2, dashed=True)
    canvas.axis(LEFT, bottom + 4, x(until) - LEFT, round_ticks(until / 1e9, "GB"))
    told = "; ".join(f"{way['way']}: {_told(way)}" for way in ways)
    caption = f"Most memory of a training step, and the GPU's {with_unit(total)} (dashed)"
    return Drawing(
        canvas.svg(),
        f"Memory of each way. {told}.",
        caption + (f" · {provenance}" if provenance else ""),
        table=table(ways),
    )


def table(ways: Iterable[Row]) -> Table:
    """One row a way: the peak, the step's time, the last loss, or what torch said."""
    cells = [
        (way["way"], way["stopped"].partition(". ")[0], None, None)
        if way["stopped"]
        else (way["way"], with_unit(way["peak_nbytes"]), with_quartiles(*step_ms(way)), f"{way['losses'][-1]:.4f}")
        for way in ways
    ]
    return Table(["way", "most memory", "ms a step", "last loss"], cells, align="lrrr")


def _told(way: Row) -> str:
    if way["stopped"]:
        return "out of memory"
    return f"{with_unit(way['peak_nbytes'])}, {step_ms(way)[0]:,.0f} ms a step"
