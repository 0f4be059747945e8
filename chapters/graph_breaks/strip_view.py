"""Where graphs are cut, as pictures: functions as strips of what they do, one under the other."""

from collections.abc import Mapping

from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

from .strips import Piece, Strip

KINDS = {"in a graph": "blue", "Python, because of the break": "orange", "eager: no graph at all": "grey"}

_LEFT, _RIGHT, _ROW, _BAR = 205, 130, 82, 44
_GAP = 10


def strips(several: Mapping[str, Strip], caption: str = "", provenance: object | None = None) -> Drawing:
    """Functions by name, a row each: their operations in order, graphs apart, with what they leave to Python.

    Raises ValueError without a strip.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one strip")
    canvas = Canvas(size=21)
    room = WIDTH - _LEFT - _RIGHT
    tile = min(
        (room - _GAP * (len(each.pieces) - 1)) / sum(len(piece.ops) for piece in each.pieces)
        for each in several.values()
    )
    for at, (name, each) in enumerate(several.items()):
        _row(canvas, at * _ROW, name, each, tile)
    alt = " ".join(f"{name}: {_in_words(each)}." for name, each in several.items())
    rows = [
        (name, each.breaks, each.graphs, each.found.ops, each.eager_ops, " | ".join(_said(each)))
        for name, each in several.items()
    ]
    table = Table(["function", "breaks", "graphs", "ops in graphs", "ops in Python", "in order"], rows)
    return Drawing(canvas.svg(), alt, caption, table, provenance, key(KINDS))


def _row(canvas: Canvas, top: float, name: str, each: Strip, tile: float) -> None:
    canvas.words(0, top + 30, name, bold=True, size=22)
    x = float(_LEFT)
    for piece in each.pieces:
        width = tile * len(piece.ops)
        for index, op in enumerate(piece.ops):
            canvas.box(x + index * tile, top, tile, _BAR, _colour(piece, op), op, title=_title(piece, op))
        if piece.graph is not None:
            middle = x + width / 2
            canvas.words(middle, top + _BAR + 20, f"graph {piece.graph}", anchor="middle", size=18)
        x += width + _GAP
    canvas.words(WIDTH, top + 31, _many(each.graphs, "graph"), anchor="end", bold=True, size=26)


def _colour(piece: Piece, op: str) -> str:
    if piece.graph is not None:
        return "blue"
    return "orange" if op == "print" else "grey"


def _title(piece: Piece, op: str) -> str:
    return f"{op}: Python" if piece.graph is None else f"{op}: graph {piece.graph}, of {piece.frame}"


def _said(each: Strip) -> list[str]:
    return [("" if piece.graph is None else f"graph {piece.graph}: ") + ", ".join(piece.ops) for piece in each.pieces]


def _in_words(each: Strip) -> str:
    return f"{_many(each.breaks, 'break')}, {_many(each.graphs, 'graph')} ({'; '.join(_said(each))})"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
