"""A module's way from lines of Python to launches, at a glance: each operation in the colour of its line."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.records import EXTERN, InductorGraph, Origin
from compile_lab.inductor.view import evidence, shortened
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments, short
from compile_lab.page.tables import Table
from compile_lab.page.units import MB

COLOURS = ("blue", "orange", "green", "purple", "vermillion", "sky")
NOBODYS = "no line"
GAP, LONGEST = 0.8, 34


def written(fn: Callable[..., Any], *args: Any, chip: str) -> GeneratedCode:
    """What the road is drawn from: `generated_code` for a chip that need not be here, with its errors."""
    return generated_code(fn, *args, chip=chip)


def launch_chart(code: GeneratedCode) -> Drawing:
    """The operations that Inductor receives of each line of Python, and under them the launches that compute them."""
    names, rows, told = _names(code), [], []
    for graph in code.graphs:
        found = computing(graph)
        drawn = [Segment(_name(origin, names), 1, words="", title=str(origin.op)) for origin in found]
        rows.append(Row(f"{len(found)} operations", drawn, after="", group=graph.direction))
        moved = f"{short(graph.fused_nbytes / MB)} MB"
        rows.append(Row(f"{len(graph.kernels)} launches", _launches(graph, names), moved, graph.direction))
        told.append(f"{len(found)} operations of the {graph.direction} become {len(graph.kernels)} launches")
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(dict.fromkeys(names.values()))}
    return segments(
        rows,
        Axis(ticks=(0, max(len(computing(graph)) for graph in code.graphs)), unit="operations"),
        title=f"{len(colours)} lines of Python: {', '.join(told)}.",
        caption="Each operation that computes something has the colour of its line. Gaps separate the launches; an "
        "operation that several launches compute is drawn in each of them. Calls of a library are pale",
        colours={**colours, NOBODYS: "grey"},
        table=Table(
            ["graph", "operations", "before fusion", "launches", "MB moved"], [_row(graph) for graph in code.graphs]
        ),
        provenance=evidence(code),
    )


def _launches(graph: InductorGraph, names: dict[tuple, str]) -> list[Segment]:
    """Each launch as its operations, those of one line together, and a gap after it."""
    drawn, end = [], 0.0
    for kernel in graph.kernels:
        for name, origins in groupby(sorted(_name(origin, names) for origin in kernel.computed)):
            size = len(list(origins))
            drawn.append(Segment(name, size, end, "", shortened(kernel.name), faint=kernel.language == EXTERN))
            end += size
        end += GAP
    return drawn


def computing(graph: InductorGraph) -> list[Origin]:
    """The operations of a graph that compute something: no views, no items of tuples."""
    return [origin for origin in graph.nodes if not origin.is_view]


def entries(graph: InductorGraph) -> int:
    """Of the schedule before fusion: loop nests and calls that become code."""
    return sum(group.kind != "nop" for group in graph.before)


def _names(code: GeneratedCode) -> dict[tuple, str]:
    """What each line computes, by its place, in order."""
    found = {(line.file, line.line): line for each in code.graphs for origin in each.nodes if (line := origin.line)}
    texts = {place: found[place].text.removeprefix("return ").rpartition(" = ")[2] for place in sorted(found)}
    return {place: text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for place, text in texts.items()}


def _name(origin: Origin, names: dict[tuple, str]) -> str:
    return names.get((origin.line.file, origin.line.line), NOBODYS) if origin.line else NOBODYS


def _row(graph: InductorGraph) -> list[str | int | float]:
    moved = round(graph.fused_nbytes / MB, 2)
    return [graph.direction, len(computing(graph)), entries(graph), len(graph.kernels), moved]
