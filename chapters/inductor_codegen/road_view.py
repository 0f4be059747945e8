"""A module's way from lines of Python to launches, at a glance: each operation a square in the colour of its line."""

from collections.abc import Callable, Sequence
from typing import Any

from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.records import EXTERN, InductorGraph, Kernel, Origin
from compile_lab.inductor.view import evidence, shortened
from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import MB, with_unit
from compile_lab.source import Line

COLOURS = ("blue", "orange", "green", "purple", "vermillion", "sky")
NOBODYS = "grey"
GAP, SQUARE, KERNEL, NARROWEST = 4.0, 9.0, 64.0, 13.0


def written(fn: Callable[..., Any], *args: Any, chip: str) -> GeneratedCode:
    """What the road is drawn from: `generated_code` for a chip that need not be here, with its errors."""
    return generated_code(fn, *args, chip=chip)


def road(code: GeneratedCode) -> Drawing:
    """Lines of Python, the operations that Inductor receives of them, and the launches, wider the more bytes they move.

    Forward and backward are on one scale. A dashed box is a library's call, a grey one a kernel that Inductor wrote.
    """
    canvas, colours = Canvas(), _colours(code)
    canvas.words(0, 20, f"{len(colours)} lines of Python", bold=True)
    width = (WIDTH - GAP * (len(colours) - 1)) / max(1, len(colours))
    for at, (line, colour) in enumerate(colours.items()):
        x = at * (width + GAP)
        canvas.box(x, 32, width, 34, colour, title=line.text, faint=True)
        canvas.words(x + width / 2, 54, _short(line.text, width), anchor="middle", size=15, code=True)
    most = max(code.graphs, key=lambda graph: graph.fused_nbytes)
    scale = (WIDTH - (GAP + NARROWEST) * len(most.kernels)) / max(1, most.fused_nbytes)
    top = 78.0
    for graph in code.graphs:
        top = _graph(canvas, graph, colours, top, scale)
    return Drawing(
        canvas.svg(),
        f"{len(colours)} lines of Python. " + " ".join(map(_said, code.graphs)),
        "A square is an operation, in the colour of the line that it comes from. A box is a launch, wider the more "
        "bytes it moves: grey if Inductor wrote it, dashed if it is a library's. Counted from the code",
        table=_table(code.graphs),
        provenance=evidence(code),
        legend=key({f"line {line.line}": colour for line, colour in colours.items()}),
    )


def _graph(canvas: Canvas, graph: InductorGraph, colours: dict[Line, str], top: float, scale: float) -> float:
    """One direction: its operations in a row, then its launches; returns where the next begins."""
    found = computing(graph)
    canvas.words(0, top + 26, f"{graph.direction}: {len(found)} operations", bold=True)
    step = min(14.0, (WIDTH - 340) / max(1, len(found)))
    for at, origin in enumerate(found):
        canvas.box(340 + at * step, top + 13, step - 2, 14, _colour(origin, colours), title=f"{origin.op}")
    middle = 340 + len(found) * step / 2
    canvas.line([(middle, top + 31), (middle, top + 45)], arrow=True)
    x = 0.0
    for kernel in graph.kernels:
        width = kernel.nbytes * scale + NARROWEST
        _kernel(canvas, kernel, colours, x, top + 50, width)
        x += width + GAP
    said = f"{len(graph.kernels)} launches, {with_unit(graph.fused_nbytes)}"
    if x < WIDTH - 380:
        canvas.words(x + 12, top + 78, said, bold=True)
        canvas.words(x + 12, top + 102, f"of {entries(graph)} loops and calls before fusion")
        return top + 50 + KERNEL + 8
    canvas.words(0, top + 50 + KERNEL + 26, said, bold=True)
    told = f"of {entries(graph)} loops and calls before fusion"
    canvas.words(WIDTH, top + 50 + KERNEL + 26, told, anchor="end")
    return top + 50 + KERNEL + 32


def _kernel(canvas: Canvas, kernel: Kernel, colours: dict[Line, str], x: float, y: float, width: float) -> None:
    library = kernel.language == EXTERN
    title = f"{shortened(kernel.name)}: {with_unit(kernel.nbytes)}"
    canvas.box(x, y, width, KERNEL, "grey", title=title, dashed=library, faint=True)
    a_row = max(1, int((width - 2) // (SQUARE + 2)))
    inside = kernel.computed
    wide = min(a_row, len(inside)) * (SQUARE + 2) - 2
    for at, origin in enumerate(inside):
        across, down = at % a_row, at // a_row
        left = x + (width - wide) / 2 + across * (SQUARE + 2)
        canvas.box(left, y + 5 + down * (SQUARE + 2), SQUARE, SQUARE, _colour(origin, colours), title=origin.op)


def computing(graph: InductorGraph) -> list[Origin]:
    """The operations of a graph that compute something: no views, no items of tuples."""
    return [origin for origin in graph.nodes if not origin.is_view]


def entries(graph: InductorGraph) -> int:
    """Of the schedule before fusion: loop nests and calls that become code."""
    return sum(group.kind != "nop" for group in graph.before)


def _colours(code: GeneratedCode) -> dict[Line, str]:
    lines = {(line.file, line.line): line for each in code.graphs for origin in each.nodes if (line := origin.line)}
    return {lines[place]: COLOURS[at % len(COLOURS)] for at, place in enumerate(sorted(lines))}


def _colour(origin: Origin, colours: dict[Line, str]) -> str:
    line = origin.line
    return next((colour for known, colour in colours.items() if line and known.is_same_place(line)), NOBODYS)


def _short(text: str, width: float) -> str:
    """What a line computes, as far as it fits into a box."""
    text = text.removeprefix("return ").rpartition(" = ")[2]
    most = int((width - 8) / 9.1)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _said(graph: InductorGraph) -> str:
    return (
        f"{graph.direction.capitalize()}: {len(computing(graph))} operations become {entries(graph)} loops and calls, "
        f"and after fusion {len(graph.kernels)} launches that move {with_unit(graph.fused_nbytes)}."
    )


def _table(graphs: Sequence[InductorGraph]) -> Table:
    columns = ["graph", "operations", "before fusion", "launches", "MB moved"]
    return Table(columns, [_row(graph) for graph in graphs])


def _row(graph: InductorGraph) -> list[str | int | float]:
    moved = round(graph.fused_nbytes / MB, 2)
    return [graph.direction, len(computing(graph)), entries(graph), len(graph.kernels), moved]
