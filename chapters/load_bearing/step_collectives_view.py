"""A compiled step's collectives as a reader sees them: from start to wait, above the work that could hide them."""

from __future__ import annotations

from collections.abc import Mapping

from compile_lab.devices.step_collectives import GraphOrder, StepCollectives
from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit

COLOURS = {"all_gather": "blue", "reduce_scatter": "orange", "all_reduce": "purple", "collective": "sky"}
_WORDS = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce"}
_BARE, _MATMUL, _KERNEL = "vermillion", "green", "grey"
_WIDE = {"MM": 1.0, "k": 0.45}
_MARK = 0.16
"""How wide a start or a wait is, in matmuls."""
_LANES, _WORK = 96, 18
_GAP = 24
_GRAPHS = ("forward", "backward")


@door
def orders(several: Mapping[str, StepCollectives], caption: str = "", graphs: tuple[int, ...] = (0, 1)) -> Drawing:
    """Each way's graphs side by side, 0 the forward, 1 the backward: a line from each collective's start to its wait.

    Below the lines stand matmuls and generated kernels in the order of the code; the picture has no time. A line is
    red where no matmul lies under it: that collective is exposed on any wire.
    Raises ValueError for no way, and for a graph that is not there.
    """
    if not several:
        raise ValueError("no way is given: give at least one, with its StepCollectives")
    for name, found in several.items():
        if missing := [at for at in graphs if not 0 <= at < len(found.graphs)]:
            raise ValueError(f"{name!r} has {len(found.graphs)} graphs, and none is number {missing[0]}")
    canvas, top = Canvas(), 0.0
    wide = (canvas.width - _GAP * (len(graphs) - 1)) / len(graphs)
    for name, found in several.items():
        canvas.words(0, top + 20, name, bold=True)
        for column, at in enumerate(graphs):
            graph, left = found.graphs[at], column * (wide + _GAP)
            told = f"{_GRAPHS[at] if at < 2 else f'graph {at}'}: {_counted(graph)}"
            canvas.words(left, top + 44, told, size=15)
            _graph(canvas, left, top + 56, wide, graph)
        top += 56 + _LANES + _WORK + 30
    shown = {each.kind for found in several.values() for graph in found.graphs for each in graph.collectives}
    legend = {_WORDS.get(kind, kind): colour for kind, colour in COLOURS.items() if kind in shown}
    legend |= {"no matmul under it": _BARE, "matmul": _MATMUL, "generated kernel": _KERNEL}
    alt = " ".join(_summary(*each) for each in several.items())
    return Drawing(canvas.svg(), alt, caption, table(several), None, key(legend))


def _graph(canvas: Canvas, left: float, top: float, wide: float, graph: GraphOrder) -> None:
    edges = [0.0]
    for token in graph.order:
        edges.append(edges[-1] + _WIDE.get(token, _MARK))
    scale = wide / edges[-1] if edges[-1] else 1.0
    lane = _LANES / max(1, len(graph.collectives))
    for row, each in enumerate(graph.collectives):
        begin, end = left + scale * edges[each.start], left + scale * edges[each.wait + 1]
        size = with_unit(each.nbytes) if each.nbytes is not None else "a symbolic size"
        matmuls = f"{each.matmuls} matmul{'s' * (each.matmuls != 1)} before its wait"
        title = f"{_WORDS.get(each.kind, each.kind)}, {size}, {each.dtype}, {matmuls}"
        colour = COLOURS[each.kind] if each.matmuls else _BARE
        canvas.box(begin, top + row * lane, max(2.0, end - begin), max(1.5, lane - 1), colour, title=title)
    body = top + _LANES + 4
    for token, colour in (("MM", _MATMUL), ("k", _KERNEL)):
        spans = [
            (left + scale * edges[at], scale * _WIDE[token] - 1) for at, each in enumerate(graph.order) if each == token
        ]
        canvas.bars(body, _WORK, spans, colour)


def _counted(graph: GraphOrder) -> str:
    counts = {kind: graph.count(kind) for kind in COLOURS}
    told = [f"{count} {_WORDS.get(kind, kind)}{'s' * (count != 1)}" for kind, count in counts.items() if count]
    return ", ".join(told) or "no collective"


def _summary(name: str, found: StepCollectives) -> str:
    covered = found.covered_nbytes / found.nbytes if found.nbytes else 0.0
    counts = "; ".join(_counted(graph) for graph in found.graphs)
    return f"{name}: {counts}; {100 * covered:.0f} % of the bytes have a matmul between start and wait."


@door
def table(several: Mapping[str, StepCollectives], caption: str = "", folded: str = "The same as a table") -> Table:
    """One row a way: collectives and bytes of the whole step, what could be hidden, what is in memory for it."""
    rows = [
        (
            name,
            found.count("all_gather"),
            found.count("reduce_scatter"),
            with_unit(found.nbytes),
            f"{100 * found.covered_nbytes / found.nbytes:.0f} %" if found.nbytes else None,
            with_unit(max(graph.in_flight_nbytes for graph in found.graphs)),
            with_unit(found.graphs[0].returned_nbytes),
        )
        for name, found in several.items()
    ]
    names = ["gathers", "scatters", "bytes", "with a matmul under them", "in flight at most", "kept for the backward"]
    return Table(["", *names], rows, caption, align="lrrrrrr", folded=folded)
