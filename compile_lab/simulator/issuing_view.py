"""The CPU's lane and the GPU's on one axis of time, the queue between them, and what a call takes in each way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..doors import check_whole
from ..page.axes import Range
from ..page.canvas import round_end
from ..page.figures import Drawing
from ..page.marks import Axis, Line, Row, Segment, lines, segments
from ..page.tables import Cell, Table
from ..page.units import percent
from .issuing import WAYS, Demand, issued, work

CALLS = 2
"""Drawn one after the other: from the second on a call takes what all later ones take."""
MOST_BOXES = 200
"""Of a lane. More of them nobody tells apart: then a box is what is done in one of `BINS` parts of the time."""
BINS = 100
MOST_KERNELS = 5_000
COLOURS = {"CPU issues": "blue", "GPU computes": "green", "GPU idle": "grey"}


def axes(
    *, kernels: int, kernel_us: float, issue_us: float, fused: float, work_left: float, graph_launch_us: float
) -> dict[str, tuple[str, ...] | Range]:
    """The controls of `panel`, which start at what was measured: times in µs, ``work_left`` as a share."""
    return {
        "way": WAYS,
        "kernels": Range(1, 400, kernels, log=True),
        "kernel_time": Range(0.5, 60, round(kernel_us, 1), 0.1, "µs", log=True),
        "cost_of_an_issue": Range(0.5, 40, round(2 * issue_us) / 2, 0.5, "µs"),
        "fused_into_one": Range(1, 10, round(fused, 1), 0.1),
        "work_left": Range(5, 100, round(100 * work_left), 1, "%"),
        "launch_of_a_graph": Range(1, 300, round(graph_launch_us), 1, "µs", log=True),
    }


def recorded_axes(workload: Mapping[str, Any]) -> dict[str, tuple[str, ...] | Range]:
    """The controls at a workload of the recording of modes, as it is kept: what its eager calls take is their issuing.

    Raises ValueError where its GPU was busy for most of an eager call: that time is then no issuing.
    """
    eager, default, graph = (
        next(case for case in workload["cases"] if case["mode"] == mode)
        for mode in ("eager", "default", "reduce-overhead")
    )
    call_us, seen = 1e3 * eager["call"]["median_ms"], eager["launches"]
    if 1e3 * seen["gpu_ms"] > 0.5 * call_us:
        raise ValueError(f"{workload['name']}: the GPU is busy for most of an eager call, so its time is not the CPU's")
    count, left = int(seen["kernels"]), default["launches"]
    return axes(
        kernels=count,
        kernel_us=1e3 * seen["gpu_ms"] / count,
        issue_us=call_us / count,
        fused=count / left["kernels"],
        work_left=left["gpu_ms"] / seen["gpu_ms"],
        graph_launch_us=1e3 * graph["launches"]["launch_ms"],
    )


def panel(
    way: str,
    kernels: int,
    kernel_time: float,
    cost_of_an_issue: float,
    fused_into_one: float,
    work_left: float,
    launch_of_a_graph: float,
) -> list[str | Drawing]:
    """What a reader explores at any value: times in µs, ``work_left`` in per cent; otherwise as `issuing.work`."""
    check_whole("kernels", kernels, most=MOST_KERNELS)
    compiled = {"fused": fused_into_one, "work_left": work_left / 100, "graph_launch_us": launch_of_a_graph}
    ways = {each: work(each, kernels, kernel_time, cost_of_an_issue, **compiled) for each in WAYS}
    return [noticed(ways[way]), lanes(ways, way), *queue(ways[way])]


def noticed(found: Demand) -> str:
    """What a call takes, who limits it, and what would change it."""
    limit = {
        "CPU": "The **CPU** limits: faster kernels would change nothing, fewer or cheaper launches would.",
        "GPU": "The **GPU** limits: fewer launches would change nothing, less work would.",
    }[found.limited_by]
    return (
        f"In a row of calls each takes **{microseconds(found.call_us)}**. The CPU issues for "
        f"{microseconds(found.host_us)}, the GPU computes for {microseconds(found.gpu_us)}: it is idle for "
        f"**{percent(found.idle)}** of a call. {limit}"
    )


def lanes(ways: Mapping[str, Demand], way: str) -> Drawing:
    """Two calls of one way on two lanes, and below, on the same axis, what one call takes in every way.

    The axis is as long as the slowest way needs, so that it stays when the way is changed.
    """
    until, found = max(issued(each, CALLS).end_us for each in ways.values()) or 1.0, issued(ways[way], CALLS)
    size, unit = (1e3, "ms") if until >= 1e4 else (1, "µs")
    issues = {(run.begun_us, run.issued_us): run.call > 0 for run in found.runs}
    computes = {(run.start_us, run.end_us): run.call > 0 for run in found.runs}
    rows = [
        Row(lane[:3], _segments(lane, spans, until, size), "", f"Two calls, {way}")
        for lane, spans in (("CPU issues", issues), ("GPU computes", computes))
    ]
    for name, each in ways.items():
        parts = {"GPU computes": each.gpu_us, "GPU idle": max(0.0, each.call_us - each.gpu_us)}
        told = f"{microseconds(each.call_us)}, {each.limited_by} limits"
        drawn = [Segment(part, us / size, words="") for part, us in parts.items() if us]
        rows.append(Row(name, drawn, told, "One call of many", strong=name == way))
    listed: list[tuple[Cell, ...]] = [
        (name, each.kernels, *(round(us, 1) for us in (each.host_us, each.gpu_us, each.call_us)), percent(each.idle))
        for name, each in ways.items()
    ]
    columns = ["way", "kernels", "CPU issues, µs", "GPU computes, µs", "a call, µs", "GPU idle"]
    return segments(
        rows,
        Axis(unit=unit, until=round_end(until / size)),
        title=f"{way}: the {ways[way].limited_by} limits, and the GPU is idle for {percent(ways[way].idle)} of a call.",
        caption="Model: two calls from an idle GPU on, the second one pale. No gaps between kernels, no copies."
        + " Too many to draw each: a box is what is done in a part of the time." * (len(found.runs) > MOST_BOXES),
        colours=COLOURS,
        table=Table(columns, listed, align="lrrrrr"),
    )


def queue(demand: Demand) -> list[Drawing]:
    """How many kernels wait to be computed, along the time of two calls; nothing where none ever waits."""
    found = issued(demand, CALLS)
    steps = found.waiting()
    most, every = max(depth for _, depth in steps), max(1, len(steps) // 300)
    size, unit = (1e3, "ms") if found.end_us >= 1e4 else (1, "µs")
    points = [(at / size, depth) for at, depth in [*steps[:-1:every], steps[-1], (found.end_us, 0)]]
    drawn = lines(
        {"": [Line("in the queue", points, stepped=True)]},
        Axis("time", unit),
        Axis("kernels in the queue"),
        title=f"At most {most:,} kernels wait in the queue.",
        area=True,
    )
    return [drawn] * (most > 0)


def microseconds(value: float) -> str:
    """A time in µs, or from 10,000 µs in ms."""
    return f"{value:,.0f} µs" if 100 <= value < 1e4 else f"{value:.3g} µs" if value < 1e4 else f"{value / 1e3:,.3g} ms"


def _segments(lane: str, spans: Mapping[tuple[float, float], bool], until: float, size: float) -> list[Segment]:
    """A lane's boxes, pale where `spans` says so; of too many, how much of each part of the time is used."""
    if len(spans) <= MOST_BOXES:
        return [
            Segment(lane, (end - start) / size, start / size, "", faint=pale) for (start, end), pale in spans.items()
        ]
    width, used = until / BINS, [0.0] * BINS
    for start, end in spans:
        for at in range(int(start / width), min(int(end / width), BINS - 1) + 1):
            used[at] += max(0.0, min(end, (at + 1) * width) - max(start, at * width))
    return [Segment(lane, us / size, at * width / size, "") for at, us in enumerate(used) if us > 0]
