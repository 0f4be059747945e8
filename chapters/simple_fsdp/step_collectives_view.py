"""A compiled step's collectives as a reader sees them: from start to wait, above the work that could hide them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compile_lab.devices.step_collectives import GraphOrder, StepCollectives
from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit

COLOURS = {
    "all-gather": "blue", "reduce-scatter": "orange", "all-reduce": "purple", "collective": "sky",
    "no matmul under it": "vermillion", "matmul": "green", "generated kernel": "grey",
}  # fmt: skip
_WORDS = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce"}
_BARE, _MATMUL, _KERNEL = "no matmul under it", "matmul", "generated kernel"
_WIDE = {"MM": 1.0, "k": 0.45}
_MARK = 0.16
"""How wide a start or a wait is, in matmuls."""
_GRAPHS = ("forward", "backward")


@door
def orders(several: Mapping[str, StepCollectives], caption: str = "", graphs: tuple[int, ...] = (0, 1)) -> Drawing:
    """Each way's graphs, 0 the forward, 1 the backward: a line from each collective's start to its wait.

    Below the lines stand matmuls and generated kernels in the order of the code; the picture has no time. A line is
    red where no matmul lies under it: that collective is exposed on any wire.
    Raises ValueError for no way, and for a graph that is not there.
    """
    if not several:
        raise ValueError("no way is given: give at least one, with its StepCollectives")
    for name, found in several.items():
        if missing := [at for at in graphs if not 0 <= at < len(found.graphs)]:
            raise ValueError(f"{name!r} has {len(found.graphs)} graphs, and none is number {missing[0]}")
    rows = [
        row
        for name, found in several.items()
        for at in graphs
        for row in _graph(f"{name}, {_GRAPHS[at] if at < 2 else f'graph {at}'}", found.graphs[at])
    ]
    shown = {part.series for row in rows for part in row.segments()}
    sent = {name: found for name, found in several.items() if found.nbytes}
    shares = [f"{100 * found.covered_nbytes / found.nbytes:.0f} % {name}" for name, found in sent.items()]
    picture = segments(
        rows,
        Axis(ticks=None),
        title=f"Bytes with a matmul between start and wait: {', '.join(shares) or 'none are sent'}.",
        caption=caption,
        colours={series: colour for series, colour in COLOURS.items() if series in shown},
        table=table(several),
    )
    return replace(picture, alt=" ".join(_summary(*each) for each in several.items()))


def _graph(name: str, graph: GraphOrder) -> list[Row]:
    """A low row for each collective, and one for what computes, along the order of the code in widths of a matmul."""
    edges = [0.0]
    for token in graph.order:
        edges.append(edges[-1] + _WIDE.get(token, _MARK))
    group, rows = f"{name}: {_counted(graph)}", []
    for each in graph.collectives:
        size = with_unit(each.nbytes) if each.nbytes is not None else "a symbolic size"
        matmuls = f"{each.matmuls} matmul{'s' * (each.matmuls != 1)} before its wait"
        kind = _WORDS.get(each.kind, each.kind)
        line = Segment(
            kind if each.matmuls else _BARE,
            edges[each.wait + 1] - edges[each.start],
            edges[each.start],
            words="",
            title=f"{kind}, {size}, {each.dtype}, {matmuls}",
        )
        rows.append(Row("", [line], after="", group=group, thin=True))
    computes = [
        Segment(series, _WIDE[token], edges[at], words="", title=series)
        for token, series in (("MM", _MATMUL), ("k", _KERNEL))
        for at, each in enumerate(graph.order)
        if each == token
    ]
    return [*rows, Row("", computes, after="", group=group)]


def _counted(graph: GraphOrder) -> str:
    counts = {kind: graph.count(kind) for kind in (*_WORDS, "collective")}
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
    names = ["gathers", "scatters", "bytes", "with a matmul under them"]
    names += ["most started, not waited for", "kept for the backward"]
    return Table(["", *names], rows, caption, align="lrrrrrr", folded=folded)
