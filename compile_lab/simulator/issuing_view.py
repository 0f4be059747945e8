"""The CPU's lane and the GPU's on one axis of time, the queue between them, and what a call takes in each way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..doors import check_whole
from ..page.axes import Range
from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from .issuing import WAYS, Demand, Issued, issued, work

LEFT, WIDTH = 172, 820
CALLS = 2
"""Drawn one after the other: from the second on a call takes what all later ones take."""
AXES_US = tuple(end * 10.0**power for power in range(0, 12) for end in (1, 1.5, 2, 3, 4, 6, 8))
MOST_BOXES = 300
"""Of a lane. More of them nobody tells apart: then the height of a box is the share of its time."""
BINS = 200
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
    return [noticed(ways[way]), lanes(ways, way)]


def noticed(found: Demand) -> str:
    """What a call takes, who limits it, and what would change it."""
    limit = {
        "CPU": "The **CPU** limits: faster kernels would change nothing, fewer or cheaper launches would.",
        "GPU": "The **GPU** limits: fewer launches would change nothing, less work would.",
    }[found.limited_by]
    return (
        f"In a row of calls each takes **{microseconds(found.call_us)}**. The CPU issues for "
        f"{microseconds(found.host_us)}, the GPU computes for {microseconds(found.gpu_us)}: it is idle for "
        f"**{found.idle:.0%}** of a call. {limit}"
    )


def lanes(ways: Mapping[str, Demand], way: str, caption: str = "", provenance: object | None = None) -> Drawing:
    """Two calls of one way on two lanes, and below, on the same axis, what one call takes in every way.

    The axis is as long as the slowest way needs, so that it stays when the way is changed.
    """
    several = {name: issued(each, CALLS) for name, each in ways.items()}
    longest = max(each.end_us for each in several.values())
    until = next((end for end in AXES_US if end >= longest), longest) or 1.0
    canvas, found = Canvas(), several[way]
    bottom = _lanes(canvas, found, 26, until)
    _axis(canvas, bottom + 8, until)
    y = bottom + 66
    for name, each in ways.items():
        _bar(canvas, name, each, y, until, name == way)
        y += 34
    alt = f"{_alt(found)} One call in a row of them: " + "; ".join(map(_told, ways.values())) + "."
    rows = [
        (name, each.kernels, *(round(us, 1) for us in (each.host_us, each.gpu_us, each.call_us)), f"{each.idle:.0%}")
        for name, each in ways.items()
    ]
    columns = ["way", "kernels", "CPU issues, µs", "GPU computes, µs", "a call, µs", "GPU idle"]
    caption = caption or (
        "Model: two calls from an idle GPU on, the second one pale; below, one call of many. "
        "No gaps between kernels, no copies"
    )
    if len(found.runs) > MOST_BOXES:
        caption += ". There are too many to draw each: the higher a box, the more of its time is used"
    return Drawing(canvas.svg(), alt, caption, Table(columns, rows, align="lrrrrr"), provenance, key(COLOURS))


def microseconds(value: float) -> str:
    """A time in µs, or from 10,000 µs in ms."""
    return f"{value:,.0f} µs" if 100 <= value < 1e4 else f"{value:.3g} µs" if value < 1e4 else f"{value / 1e3:,.3g} ms"


def _lanes(canvas: Canvas, found: Issued, y: float, until: float) -> float:
    def place(at_us: float) -> float:
        return LEFT + WIDTH * at_us / until

    canvas.box(LEFT, y + 56, place(found.end_us) - LEFT, 44, "grey", title="the GPU has nothing to do", faint=True)
    for label, top in (("CPU", y), ("GPU", y + 56)):
        canvas.words(LEFT - 12, top + 30, label, anchor="end", bold=True)
    for call in range(CALLS):
        here = [run for run in found.runs if run.call == call]
        issues = list(dict.fromkeys((run.begun_us, run.issued_us) for run in here))
        computes = [(run.start_us, run.end_us) for run in here]
        for top, spans, colour in ((y, issues, "blue"), (y + 56, computes, "green")):
            for start, end, share in _told_apart(spans, until):
                wide = place(end) - place(start)
                gap = min(1.5, 0.25 * wide) if share == 1 else 0
                canvas.box(place(start), top + 44 * (1 - share), wide - gap, 44 * share, colour, faint=call > 0)
    _queue(canvas, found, y + 116, place)
    return y + 156


def _told_apart(spans: Sequence[tuple[float, float]], until: float) -> Iterator[tuple[float, float, float]]:
    """The spans, each used whole; where there are too many, equal parts of the time, and how much of each is used."""
    if len(spans) <= MOST_BOXES // 2:
        yield from ((start, end, 1.0) for start, end in spans)
        return
    width = until / BINS
    used = [0.0] * (BINS + 1)
    for start, end in spans:
        for at in range(int(start / width), min(int(end / width), BINS) + 1):
            used[at] += max(0.0, min(end, (at + 1) * width) - max(start, at * width))
    yield from ((at * width, (at + 1) * width, min(1.0, us / width)) for at, us in enumerate(used) if us > 0)


def _queue(canvas: Canvas, found: Issued, y: float, place: Callable[[float], float]) -> None:
    """The depth of the queue as a line of steps, 40 high at its most."""
    steps = found.waiting()
    most = max(depth for _, depth in steps)
    canvas.words(LEFT - 12, y + 20, "queue", anchor="end", bold=True)
    canvas.words(LEFT - 12, y + 40, f"at most {most:,}", anchor="end", size=15)
    points: list[tuple[float, float]] = []
    for at_us, depth in steps:
        x, level = place(at_us), y + 40 - 38 * (depth / most if most else 0)
        if points:
            points.append((x, points[-1][1]))
        points.append((x, level))
    canvas.line(_thinned([*points, (place(found.end_us), points[-1][1])]), "vermillion")


def _bar(canvas: Canvas, name: str, each: Demand, y: float, until: float, chosen: bool) -> None:
    busy, whole = (WIDTH * us / until for us in (each.gpu_us, each.call_us))
    canvas.words(LEFT - 12, y + 19, name, anchor="end", bold=chosen, size=17)
    canvas.box(LEFT, y, busy, 26, "green", faint=not chosen)
    if whole > busy:
        canvas.box(LEFT + busy, y, whole - busy, 26, "grey", faint=True)
    canvas.words(LEFT + whole + 8, y + 19, f"{microseconds(each.call_us)} a call, {each.limited_by} limits", size=16)


def _axis(canvas: Canvas, y: float, until: float) -> None:
    parts = 3 if f"{until:.1e}"[0] in "36" or f"{until:.1e}".startswith("1.5") else 4
    ticks = [(index / parts, microseconds(until * index / parts) if index else "0") for index in range(parts + 1)]
    canvas.axis(LEFT, y, WIDTH, ticks)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A line of steps without those that no eye tells apart: at most some hundreds of points."""
    every = max(1, len(points) // 600)
    return [*points[:-1:every], points[-1]]


def _told(each: Demand) -> str:
    return (
        f"{each.way} {microseconds(each.call_us)}, the GPU idle for {each.idle:.0%}, limited by the {each.limited_by}"
    )


def _alt(found: Issued) -> str:
    most = max(depth for _, depth in found.waiting())
    return (
        f"Two lanes on one axis of time, {CALLS} calls of {found.work.way}: the CPU issues {len(found.work.issues_us)} "
        f"launches a call, the GPU runs {found.work.kernels} kernels and is done after {microseconds(found.end_us)}; "
        f"at most {most:,} kernels wait in the queue."
    )
