"""Where graphs are cut, as pictures: what functions do in order, what became of each way to write them, their sizes."""

from collections.abc import Iterator, Mapping, Sequence

from compile_lab.dynamo.tracing import DynamoTrace
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Row, Segment, cells, segments
from compile_lab.page.tables import Table

from .strips import Piece, Strip

KINDS = {"in a graph": "blue", "Python, because of the break": "orange", "eager: no graph at all": "grey"}
OUTCOMES = {
    "one graph": "blue",
    "broken: Python in between": "orange",
    "nothing compiled": "grey",
    "refused": "vermillion",
}
"""What becomes of a function, and its colour."""


def strips(several: Mapping[str, Strip], caption: str = "", provenance: object | None = None) -> Drawing:
    """Functions by name, a row each: their operations in order, graphs apart, with what they leave to Python.

    Raises ValueError without a strip.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one strip")
    rows = [Row(name, list(_parts(each)), after=_many(each.graphs, "graph")) for name, each in several.items()]
    listed = [
        (name, each.breaks, each.graphs, each.found.ops, each.eager_ops, " | ".join(map(_piece_text, each.pieces)))
        for name, each in several.items()
    ]
    found = [str(each.graphs) for each in several.values() if each.breaks]
    title = f"Where the print stands decides: it leaves {_either(found)} graphs."
    table = Table(["function", "breaks", "graphs", "ops in graphs", "ops in Python", "in order"], listed)
    axis = Axis("operations, in order", ticks=None)
    return segments(rows, axis, title=title, caption=caption, colours=KINDS, provenance=provenance, table=table)


def outcome(found: DynamoTrace | str) -> str:
    """One of `OUTCOMES`: of a trace, or of the error that came instead of it."""
    whole, split, nothing, refused = OUTCOMES
    if isinstance(found, str):
        return refused
    if not found.graphs:
        return nothing
    return split if found.breaks else whole


def matrix(several: Mapping[str, Sequence[DynamoTrace | str]], columns: Sequence[str]) -> Drawing:
    """A row for each function by name, a cell for each way it was traced; the table has what Dynamo says of a break.

    An error's name in the place of a trace is a refusal. Raises ValueError without a function, and where a row has not
    a cell for each of ``columns``.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one function's traces")
    for name, row in several.items():
        if len(row) != len(columns):
            raise ValueError(f"{name!r} has {len(row)} traces for {len(columns)} columns: give one for each")
    whole = [sum(outcome(row[at]) == "one graph" for row in several.values()) for at in range(len(columns))]
    rows = [
        (name, *(found if isinstance(found, str) else len(found.graphs) for found in row), _reason(row) or None)
        for name, row in several.items()
    ]
    return cells(
        {"": [[_cell(found) for found in row] for row in several.values()]},
        rows=list(several),
        columns=columns,
        title=_whole_text(whole, columns, len(several)),
        colours=OUTCOMES,
        table=Table(["function", *columns, "Dynamo says"], rows),
    )


def graphs(several: Mapping[str, DynamoTrace], caption: str = "") -> Drawing:
    """A row for each traced function by name: its graphs side by side, as wide as their operations are many.

    Raises ValueError where no function has a graph.
    """
    if not any(found.graphs for found in several.values()):
        raise ValueError("nothing to draw: none of these functions has a graph")
    colours = {"one graph": "blue", "one of several graphs": "orange"}
    whole, part = colours
    drawn = [
        Row(
            name,
            [
                Segment(part if found.breaks else whole, graph.ops, title=f"{graph.function}: {_many(graph.ops, 'op')}")
                for graph in found.graphs
            ],
            after=_many(len(found.graphs), "graph"),
        )
        for name, found in several.items()
    ]
    rows = [
        (name, len(found.breaks), len(found.graphs), found.ops, ", ".join(str(graph.ops) for graph in found.graphs))
        for name, found in several.items()
    ]
    return segments(
        drawn,
        Axis("operations in graphs"),
        title=f"Graphs: {', '.join(f'{name} {len(found.graphs)}' for name, found in several.items())}.",
        caption=caption,
        colours=colours,
        table=Table(["traced", "breaks", "graphs", "ops in graphs", "graph by graph"], rows),
    )


def _parts(each: Strip) -> Iterator[Segment]:
    start = 0.0
    for piece in each.pieces:
        for op in piece.ops:
            where = "Python" if piece.graph is None else f"graph {piece.graph}, of {piece.frame}"
            yield Segment(_kind(piece, op), 1, start, op, f"{op}: {where}")
            start += 1
        start += 0.2  # where one graph ends and another begins


def _kind(piece: Piece, op: str) -> str:
    graph, python, eager = KINDS
    if piece.graph is not None:
        return graph
    return python if op == "print" else eager


def _piece_text(piece: Piece) -> str:
    return ("" if piece.graph is None else f"graph {piece.graph}: ") + ", ".join(piece.ops)


def _cell(found: DynamoTrace | str) -> Cell:
    if isinstance(found, str):
        return Cell("error", outcome(found), title=found)
    return Cell(_many(len(found.graphs), "graph"), outcome(found), title=_reason([found]))


def _whole_text(whole: Sequence[int], columns: Sequence[str], of: int) -> str:
    """As written, 2 of 7 functions become one whole graph; fixed, 7."""
    first, *more = (f"{column}, {count}" for column, count in zip(columns, whole, strict=True))
    verb = "becomes" if whole[0] == 1 else "become"
    said = "; ".join([f"{first} of {_many(of, 'function')} {verb} one whole graph", *more])
    return f"{said[:1].upper()}{said[1:]}."


def _reason(row: Sequence[DynamoTrace | str]) -> str:
    stops = [stop for found in row if not isinstance(found, str) for stop in found.breaks]
    return (stops[0].skipped_for or stops[0].reason) if stops else ""


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
