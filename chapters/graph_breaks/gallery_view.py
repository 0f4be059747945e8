"""Many traces beside each other: what each function's graphs are, as it is written and otherwise."""

from collections.abc import Mapping, Sequence

from compile_lab.dynamo.tracing import DynamoTrace, GraphBreak
from compile_lab.page.canvas import DIGIT, WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

KEY = {"one graph": "blue", "broken: Python in between": "orange", "nothing compiled": "grey", "refused": "vermillion"}
"""What becomes of a function, and its colour."""

_NAME, _CELL, _ROW, _BAR, _HEAD = 315, 150, 40, 30, 34


def outcome(found: DynamoTrace | str) -> str:
    """One of `KEY`: of a trace, or of the error that came instead of it."""
    whole, split, nothing, refused = KEY
    if isinstance(found, str):
        return refused
    if not found.graphs:
        return nothing
    return split if found.breaks else whole


def matrix(
    several: Mapping[str, Sequence[DynamoTrace | str]],
    columns: Sequence[str],
    caption: str = "",
    provenance: object | None = None,
) -> Drawing:
    """A row for each function by name, a cell for each way it was traced; beside it what Dynamo says of a break.

    An error's name in the place of a trace is a refusal. Raises ValueError without a function, and where a row has not
    a cell for each of ``columns``.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one function's traces")
    for name, row in several.items():
        if len(row) != len(columns):
            raise ValueError(f"{name!r} has {len(row)} traces for {len(columns)} columns: give one for each")
    canvas = Canvas(size=20)
    left = max(_NAME, max(map(len, several)) * DIGIT * canvas.size)
    for at, column in enumerate(columns):
        canvas.words(left + at * _CELL, 20, column, size=18)
    said_at = left + len(columns) * _CELL + 12
    for at, (name, row) in enumerate(several.items()):
        top = _HEAD + at * _ROW
        canvas.words(0, top + 22, name)
        for index, found in enumerate(row):
            _cell(canvas, left + index * _CELL, top, found)
        said = _short(_said(row), int((WIDTH - said_at) / 7.4))
        canvas.words(said_at, top + 21, said, size=15)
    shown = {outcome(found) for row in several.values() for found in row}
    rows = [(name, *map(_graphs, row), _said(row) or None) for name, row in several.items()]
    table = Table(["function", *columns, "Dynamo says"], rows)
    alt = " ".join(f"{name}: " + ", ".join(map(_in_words, columns, row)) + "." for name, row in several.items())
    legend = key({name: colour for name, colour in KEY.items() if name in shown})
    return Drawing(canvas.svg(), alt, caption, table, provenance, legend)


def graphs(several: Mapping[str, DynamoTrace], caption: str = "", provenance: object | None = None) -> Drawing:
    """A row for each traced function by name: its graphs side by side, as wide as their operations are many.

    Raises ValueError where no function has a graph.
    """
    most = max((found.ops for found in several.values()), default=0)
    if not most:
        raise ValueError("nothing to draw: none of these functions has a graph")
    canvas = Canvas(size=20)
    left, right, row = 215, 190, 50
    for at, (name, found) in enumerate(several.items()):
        top, x = at * row, float(left)
        canvas.words(0, top + 25, name, bold=True)
        for index, graph in enumerate(found.graphs):
            width = (WIDTH - left - right) * graph.ops / most
            colour = "orange" if found.breaks else "blue"
            told = f"graph {index}, of {graph.function}: {_many(graph.ops, 'op')}"
            canvas.box(x, top, max(width - 3, 3), 36, colour, _many(graph.ops, "op"), title=told)
            x += width
        canvas.words(WIDTH, top + 26, _many(len(found.graphs), "graph"), anchor="end", bold=True)
    rows = [
        (name, len(found.breaks), len(found.graphs), found.ops, ", ".join(str(graph.ops) for graph in found.graphs))
        for name, found in several.items()
    ]
    table = Table(["traced", "breaks", "graphs", "ops in graphs", "graph by graph"], rows)
    alt = "; ".join(
        f"{row[0]}: {_many(row[2], 'graph')} with {row[4]} operations, {_many(row[1], 'break')}" for row in rows
    )
    legend = key({"one graph, as wide as its operations": "blue", "one of several graphs": "orange"})
    return Drawing(canvas.svg(), f"{alt}.", caption, table, provenance, legend)


def _cell(canvas: Canvas, x: float, top: float, found: DynamoTrace | str) -> None:
    kind = outcome(found)
    room = _CELL - 14
    if isinstance(found, str) or not found.graphs:
        canvas.box(x, top, room, _BAR, KEY[kind], "error" if isinstance(found, str) else "none", title=str(found))
        return
    width = (room - 6 * (len(found.graphs) - 1)) / len(found.graphs)
    for index, graph in enumerate(found.graphs):
        told = f"graph {index}: {_many(graph.ops, 'op')}"
        canvas.box(x + index * (width + 6), top, width, _BAR, KEY[kind], str(index + 1), title=told)


def _graphs(found: DynamoTrace | str) -> str:
    return found if isinstance(found, str) else str(len(found.graphs))


def _in_words(column: str, found: DynamoTrace | str) -> str:
    if isinstance(found, str):
        return f"{column} {found}"
    return f"{column} {_many(len(found.graphs), 'graph')}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _said(row: Sequence[DynamoTrace | str]) -> str:
    stops: list[GraphBreak] = [stop for found in row if not isinstance(found, str) for stop in found.breaks]
    return (stops[0].skipped_for or stops[0].reason) if stops else ""


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
