"""The min-cut partitioner's network as a picture: what each tensor costs to save, and where the cheapest cut goes."""

from compile_lab.aot.partition import Pipe
from compile_lab.aot.training import TrainingGraphs
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Node, nodes
from compile_lab.page.tables import Table
from compile_lab.page.units import without_namespace

from . import cut_view

SIDES = {
    "source": ("before the cut: the forward alone computes it", "sky"),
    "cut": ("cut: saved", "orange"),
    "sink": ("behind the cut: the backward computes it", "purple"),
}
"""What a node's side of the cut means, and its colour."""
MOST = 12
"""Tensors; more do not fit on a screen."""

SOURCE, SINK = "source", "sink"


def network(graphs: TrainingGraphs, caption: str = "", provenance: object | None = None) -> Drawing:
    """A box for each tensor that could be saved, with its price; lines are what is computed from what, left to right.

    A line from the source is a tensor that must not be computed twice, one to the sink an operation of the backward
    that reads it. Raises ValueError where the partitioner had nothing to cut, and
    for more than 12 tensors.
    """
    pipes = graphs.network
    if not pipes:
        raise ValueError(f"nothing to draw: the partitioner {graphs.partitioner!r} cut no network here")
    if len(pipes) > MOST:
        raise ValueError(f"{len(pipes)} tensors are too many to draw (at most {MOST}): take a smaller function")
    depths = _depths(pipes)
    named = {pipe.name: _titled(graphs, pipe) for pipe in pipes}
    boxes = [
        Node(SOURCE, -1, note="in the forward"),
        *(Node(named[p.name], depths[p.name], SIDES[p.side][0], f"{p.capacity:,.0f}") for p in pipes),
        Node(SINK, max(depths.values()) + 1, note="for the backward"),
    ]
    edges = [(SOURCE, named[pipe.name]) for pipe in pipes if pipe.banned]
    edges += [(named[pipe.name], named[name]) for pipe in pipes for name in pipe.after]
    edges += [(named[pipe.name], SINK) for pipe in pipes if pipe.needed]
    table = Table(
        ["tensor", "price of saving it", "rule against recomputing it", "read in the backward by", "side of the cut"],
        [
            (named[each.name], f"{each.capacity:,.0f}", each.banned or None, ", ".join(each.needed), each.side)
            for each in pipes
        ],
        align="lrlll",
    )
    colours = dict(SIDES.values())
    return nodes(
        boxes, edges, title=cut_summary(graphs), caption=caption, colours=colours, provenance=provenance, table=table
    )


def cut_summary(graphs: TrainingGraphs) -> str:
    """The cut in a sentence: which tensors, at which prices, and their sum."""
    cut = [pipe for pipe in graphs.network if pipe.side == "cut"]
    parts = ", ".join(f"{_titled(graphs, pipe)} ({pipe.capacity:,.0f})" for pipe in cut)
    return f"The cheapest cut goes through {parts}: {sum(pipe.capacity for pipe in cut):,.0f} in all."


def _titled(graphs: TrainingGraphs, pipe: Pipe) -> str:
    """What its box is called: an input by its name, a view with what it is a view of."""
    node = next(node for node in graphs.joint.nodes if node.name == pipe.name)
    if node.title or not cut_view.is_view(node):
        return node.title or without_namespace(node.op).partition(".")[0]
    of = next(each for each in graphs.joint.nodes if each.name == node.inputs[0])
    return f"{without_namespace(node.op).partition('.')[0]} {of.title or of.name}"


def _depths(pipes: tuple[Pipe, ...]) -> dict[str, int]:
    """How many steps lie between each tensor and the first that it is computed from: the longest way."""
    depths = {pipe.name: 0 for pipe in pipes}
    for _ in pipes:
        for pipe in pipes:
            for name in pipe.after:
                depths[name] = max(depths[name], depths[pipe.name] + 1)
    return depths
