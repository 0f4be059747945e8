"""The model of links against public measurements: lines and points, and how far off it is where."""

import itertools
from collections.abc import Iterable

from ..page.figures import Figure, Plot, Series, lines
from ..page.tables import Table
from ..page.units import percent
from .links import Measured, measured

DRAWN = {
    "8 H100, one machine": ("H100", 8, "ND_H100_v5"),
    "16 H100, two machines": ("H100", 16, "nccl-tests/issues/309"),
    "32 H100, four machines": ("H100", 32, "nccl-tests/issues/309"),
    "512 GH200, 128 machines": ("GH200", 512, "nccl-benchmark-on-alps"),
}
"""Chip, ranks, and a part of the source's name."""
NEAR = 0.25
SIZES = {"up to 1 MiB": 2**20, "to 256 MiB": 2**28, "to 1 GiB": 2**30, "1 GiB and more": 2**62}
PLACES = ("one machine", "two machines", "three and more")


def picture() -> Figure:
    """Bus bandwidth of an all-reduce by size: the model as lines, what was measured as points."""
    series = []
    sources: dict[str, None] = {}
    for name, (chip, ranks, source) in DRAWN.items():
        rows = [
            each
            for each in measured()
            if (each.chip, each.ranks) == (chip, ranks) and source in each.source and each.nbytes >= 2**16
        ]
        rows = [each for each in rows if each.series == rows[0].series]
        sources |= {rows[0].source: None}
        at = [each.nbytes / 1e6 for each in rows]
        series.append(Series(name, at, [each.sent_nbytes / each.seconds / 1e9 for each in rows]))
        series.append(Series(f"{name}: model", at, [each.sent_nbytes / each.planned_s / 1e9 for each in rows]))
    most = [one.values[-1] for one in series[::2]]
    figure = lines(
        series,
        x_title="size of an all-reduce, MB",
        y_title="bus bandwidth, GB/s a GPU",
        title=f"The largest all-reduces reach {min(most):.0f} to {max(most):.0f} GB/s a GPU.",
        caption=f"Points: measured by others with nccl-tests ({'; '.join(sources)}). Lines: the model",
        log_x=True,
        log_y=True,
    )
    assert not isinstance(figure.plot, Plot)  # but plotly's own
    for points, line in zip(figure.plot.data[::2], figure.plot.data[1::2], strict=True):
        points.mode, line.mode, line.showlegend = "markers", "lines", False
        line.line.color, line.line.dash = points.line.color, "solid"
    figure.plot.update_layout(height=400)
    return figure


def region(each: Measured) -> tuple[str, str, str]:
    """Whether Hopper or later, on how many machines, and how large: the cells of `near`."""
    size = next(name for name, end in SIZES.items() if each.nbytes < end)
    return ("A100" if each.chip == "A100" else "Hopper and later", PLACES[min(each.machines, 3) - 1], size)


def near(rows: Iterable[Measured]) -> tuple[int, int, float]:
    """How many rows the model is within `NEAR` of, of how many; and the share if each series counts as one."""
    by_series: dict[int, list[bool]] = {}
    for each in rows:
        by_series.setdefault(each.series, []).append(abs(each.off_by) <= NEAR)
    right = [right for found in by_series.values() for right in found]
    return sum(right), len(right), sum(sum(found) / len(found) for found in by_series.values()) / (len(by_series) or 1)


def table() -> Table:
    """Where the model holds: all-reduces within a quarter of the measured time, by chip, machines and size."""
    rows = []
    for chip, place in itertools.product(("Hopper and later", "A100"), PLACES):
        cells = []
        for size in SIZES:
            right, of, share = near(
                each for each in measured() if each.kind == "all_reduce" and region(each) == (chip, place, size)
            )
            cells.append(f"{right} of {of}, {percent(share)}" if of else "")
        rows.append([chip, place, *cells])
    return Table(
        ["GPUs", "on", *SIZES],
        rows,
        folded=f"All-reduces within {percent(NEAR)} of the measured time, and the share if each series counts as one",
    )
