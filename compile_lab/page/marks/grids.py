"""Fields of a grid, and boxes of a layered graph."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...doors import door
from ..figures import Drawing
from ..tables import Table
from .common import Sheet, attribute, joined, percent


@dataclass(frozen=True)
class Cell:
    """A field of a grid: its words, the series that gives it its colour ("" for none), and whether it is pale."""

    words: str = ""
    series: str = ""
    pale: bool = False
    title: str = ""


@dataclass(frozen=True)
class Node:
    """A box of a layered graph, with a `note` under its name."""

    name: str
    layer: int
    series: str = ""
    note: str = ""


@door
def cells(
    grids: Mapping[str, Sequence[Sequence[Cell]]],
    *,
    rows: Sequence[str] = (),
    title: str,
    columns: Sequence[str] = (),
    caption: str = "",
    colours: Mapping[str, str] | None = None,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Grids of fields, one for each moment or device: who holds what. They wrap where the page is narrow.

    All have the same `rows` and, if named, `columns`. Fields without a word are small, may be thousands, and need no
    names. Raises ValueError without a title, for a grid of other rows and for a series without a colour.

    >>> from compile_lab.page.marks import Cell, cells
    >>> grid = [[Cell("0", "held"), Cell("1")], [Cell("0"), Cell("1", "held")]]
    >>> cells({"shards": grid}, rows=["rank 0", "rank 1"], title="Each rank holds one shard.").table
            rank 0  rank 1
    ──────  ──────  ──────
    shards  0 1     0 1
    """
    sheet = Sheet(title, caption, colours, {}, provenance, table)
    fields = [cell for grid in grids.values() for row in grid for cell in row]
    hues = sheet.hues(cell.series for cell in fields if cell.series)
    if not any(cell.words for cell in fields):
        return _fine(grids, sheet, hues)
    if wrong := [name for name, grid in grids.items() if len(grid) != len(rows)]:
        found = len(grids[wrong[0]])
        raise ValueError(f"the grid {wrong[0]!r} has {found} rows, and there are {len(rows)} names of rows")
    longest = max(len(words) for words in [*(cell.words for cell in fields), *columns])
    drawn = []
    for name, grid in grids.items():
        shown = "".join(f"<b>{html.escape(column)}</b>" for column in ["", *columns] * bool(columns))
        for head, row in zip(rows, grid, strict=True):
            shown += f"<i>{html.escape(head)}</i>" + "".join(_field(cell, hues) for cell in row)
        drawn.append(f"<div class='m-moment m-cells' style='--n:{len(grid[0])}'>{_name(name)}{shown}</div>")
    texts = {
        name: [" ".join(cell.words or cell.series or "–" for cell in row) for row in grid]
        for name, grid in grids.items()
    }
    said = [
        joined(name, f"{row}: {text}") for name, grid in texts.items() for row, text in zip(rows, grid, strict=True)
    ]
    body = f"<div class='m-moments' style='--cell:{max(1.5, 0.5 * longest + 0.6):.1f}rem'>{''.join(drawn)}</div>"
    return sheet.drawing(body, said, Table(["", *rows], [[name, *grid] for name, grid in texts.items()]), hues)


def _fine(grids: Mapping[str, Sequence[Sequence[Cell]]], sheet: Sheet, hues: Mapping[str, str]) -> Drawing:
    """Grids of small fields; words and table have how many of each series there are."""
    drawn = [f"<div class='m-moment m-fine'>{_name(name)}{_squares(grid, hues)}</div>" for name, grid in grids.items()]
    counts = [[sum(cell.series == name for row in grid for cell in row) for name in hues] for grid in grids.values()]
    said = [
        joined(name, *(f"{count:,} {series}" for series, count in zip(hues, found, strict=True)))
        for name, found in zip(grids, counts, strict=True)
    ]
    own = Table(["", *hues], [[name, *found] for name, found in zip(grids, counts, strict=True)])
    return sheet.drawing(f"<div class='m-moments'>{''.join(drawn)}</div>", said, own, hues)


def _name(name: str) -> str:
    return f"<p>{html.escape(name)}</p>" if name else ""


@door
def nodes(
    boxes: Sequence[Node],
    edges: Sequence[tuple[str, str]],
    *,
    title: str,
    caption: str = "",
    colours: Mapping[str, str] | None = None,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """A layered graph: layers side by side and edges to the right; on a phone one under the other, and edges down.

    An edge over several layers goes between their boxes, beside those to the same end. Raises ValueError without a
    title, for two boxes of one name and for an edge to a box that is not there.

    >>> from compile_lab.page.marks import Node, nodes
    >>> boxes = [Node("forward", 0, note="3 calls"), Node("joint graph", 1), Node("kernels", 2)]
    >>> nodes(boxes, [("forward", "joint graph"), ("joint graph", "kernels")], title="One line becomes kernels.").alt
    'One line becomes kernels. forward to joint graph; joint graph to kernels.'
    """
    order = sorted({box.layer for box in boxes})
    at = {box.name: order.index(box.layer) for box in boxes}
    if len(at) != len(boxes):
        raise ValueError("two boxes have one name: an edge could not say which of them it means")
    if lost := [name for edge in edges for name in edge if name not in at]:
        raise ValueError(f"an edge names {lost[0]!r}, which is none of the boxes; there are {', '.join(map(repr, at))}")
    passed = [[(end, layer) for layer in range(at[start] + 1, at[end])] for start, end in edges]
    ways = [[start, *steps, end] for (start, end), steps in zip(edges, passed, strict=True)]
    bends = dict.fromkeys(itertools.chain(*passed))
    layers: list[list[Node | tuple[str, int]]] = [
        [*(box for box in boxes if at[box.name] == number), *(bend for bend in bends if bend[1] == number)]
        for number in range(len(order))
    ]
    place = {
        getattr(box, "name", box): ((number + 0.5) / len(layers), (row + 0.5) / len(layer))
        for number, layer in enumerate(layers)
        for row, box in enumerate(layer)
    }
    links = dict.fromkeys(link for way in ways for link in itertools.pairwise(way))
    sheet = Sheet(title, caption, colours, {}, provenance, table)
    hues = sheet.hues(box.series for box in boxes if box.series)
    drawn = "".join(f"<div class='m-layer'>{''.join(_box(box, hues) for box in layer)}</div>" for layer in layers)
    across = "".join(_link(place[start], place[end]) for start, end in links)
    down = "".join(_link(place[start][::-1], place[end][::-1]) for start, end in links)
    lines = "".join(
        f"<svg class='m-links m-{way}' aria-hidden='true'>{svg}</svg>"
        for way, svg in (("across", across), ("down", down))
    )
    said = [f"{start} to {end}" for start, end in edges]
    body = f"<div class='m-graph' style='--layers:{len(layers)}'>{lines}{drawn}</div>"
    return sheet.drawing(body, said, Table(["from", "to"], [list(edge) for edge in edges]), hues)


def _field(cell: Cell, hues: Mapping[str, str]) -> str:
    look = f"m-{hues[cell.series]}{' m-faint' * cell.pale}" if cell.series else "m-none"
    hover = f" title='{attribute(cell.title)}'" if cell.title else ""
    return f"<span class='m-cell {look}'{hover}>{html.escape(cell.words)}</span>"


def _squares(grid: Sequence[Sequence[Cell]], hues: Mapping[str, str]) -> str:
    """A grid of small fields, one shape a series."""
    paths: dict[str, str] = {}
    for top, row in enumerate(grid):
        for left, cell in enumerate(row):
            look = f"m-fill-{hues[cell.series]}" if cell.series else "m-fill-none"
            paths[look] = paths.get(look, "") + f"M{left} {top}h.9v.9h-.9z"
    shapes = "".join(f"<path class='{look}' d='{path}'/>" for look, path in paths.items())
    return f"<svg viewBox='0 0 {len(grid[0])} {len(grid)}' aria-hidden='true'>{shapes}</svg>"


def _box(box: Node | tuple[str, int], hues: Mapping[str, str]) -> str:
    if not isinstance(box, Node):  # where an edge passes
        return "<div class='m-node m-way'></div>"
    note = f"<small>{html.escape(box.note)}</small>" if box.note else ""
    look = f"m-node m-edge-{hues[box.series]}" if box.series else "m-node"
    return f"<div class='{look}'><b>{html.escape(box.name)}</b>{note}</div>"


def _link(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = map(percent, (*start, *end))
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}'/>"
