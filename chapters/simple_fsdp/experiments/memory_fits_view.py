"""Which ways of training fit into a GPU's memory, and what a step of each takes."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, segments
from compile_lab.page.marks import Row as Bar
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles, with_unit

Row = Mapping[str, Any]


def step_ms(way: Row) -> tuple[float, float, float]:
    """The median and the quartiles of a way's steps after the first. ValueError for a way that did not fit."""
    if len(way["step_ms"]) < 2:
        raise ValueError(f"the way {way['way']!r} has no two steps to time: {way['stopped'] or 'none was recorded'}")
    low, median, high = statistics.quantiles(way["step_ms"], n=4)
    return median, low, high


def fits(result: Mapping[str, Any], provenance: object | None = None) -> Drawing:
    """A bar a way, as long as what it took at most, and a line where the GPU's memory ends."""
    total, ways = result["memory_nbytes"] / 1e9, result["ways"]
    rows = [
        Bar(way["way"], {"out of memory": total}, after="out of memory")
        if way["stopped"]
        else Bar(way["way"], {"peak": way["peak_nbytes"] / 1e9}, after=f"{step_ms(way)[0]:,.0f} ms a step")
        for way in ways
    ]
    return segments(
        rows,
        Axis("most memory", "GB"),
        title=f"{sum(not way['stopped'] for way in ways)} of {len(ways)} ways to train fit into {total:.3g} GB.",
        colours={"peak": "blue", "out of memory": "vermillion"},
        references={f"the GPU's {total:.3g} GB": (total, "grey")},
        provenance=provenance,
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
