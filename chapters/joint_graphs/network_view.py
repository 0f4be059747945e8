"""The min-cut partitioner's network as a picture: what each tensor costs to save, and where the cheapest cut goes."""

from collections import Counter

from compile_lab.aot.partition import Pipe
from compile_lab.aot.training import TrainingGraphs
from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
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
"""Nodes; more do not fit on a screen."""

_SOURCE, _SINK, _TOP, _ROW, _BOX = 110, 120, 30, 56, 44


def network(graphs: TrainingGraphs, caption: str = "", provenance: object | None = None) -> Drawing:
    """A row for each tensor that could be saved, with its price; lines are what is computed from what, left to right.

    A line from the source is a tensor that must not be computed twice, one to the sink an operation of the backward
    that reads it; a thick stroke is where the cut goes. Raises ValueError where the partitioner had nothing to cut, and
    for more than 12 tensors.
    """
    pipes = graphs.network
    if not pipes:
        raise ValueError(f"nothing to draw: the partitioner {graphs.partitioner!r} cut no network here")
    if len(pipes) > MOST:
        raise ValueError(f"{len(pipes)} tensors are too many to draw (at most {MOST}): take a smaller function")
    depths = _depths(pipes)
    pipes = tuple(sorted(pipes, key=lambda pipe: depths[pipe.name]))
    columns = max(depths.values()) + 1
    step = (WIDTH - _SOURCE - _SINK - 30) / columns
    wide = step - 36
    left = {pipe.name: _SOURCE + 30 + depths[pipe.name] * step for pipe in pipes}
    middle = {pipe.name: _TOP + at * _ROW + _BOX / 2 for at, pipe in enumerate(pipes)}
    bottom = _TOP + len(pipes) * _ROW
    canvas, bends = Canvas(size=17), Counter[int]()
    canvas.box(0, _TOP, _SOURCE, bottom - _TOP, "grey", "source:\nforward", faint=True)
    canvas.box(WIDTH - _SINK, _TOP, _SINK, bottom - _TOP, "grey", "sink:\nbackward", faint=True)
    for pipe in pipes:
        y, right = middle[pipe.name], left[pipe.name] + wide
        if pipe.banned:
            canvas.line([(_SOURCE, y), (left[pipe.name], y)], "grey", arrow=True)
        if pipe.needed:
            canvas.line([(right, y), (WIDTH - _SINK, y)], "grey", arrow=True)
        for name in pipe.after:
            bend = right + 8 + 5 * bends[depths[pipe.name]]
            bends[depths[pipe.name]] += 1
            canvas.line([(right, y), (bend, y), (bend, middle[name]), (left[name], middle[name])], "grey", arrow=True)
    for pipe in pipes:
        top, right = middle[pipe.name] - _BOX / 2, left[pipe.name] + wide
        words = f"{_titled(graphs, pipe)}\n{pipe.capacity:,.0f}"
        canvas.box(left[pipe.name], top, wide, _BOX, SIDES[pipe.side][1], words, size=15)
        if pipe.side == "cut":
            canvas.line([(right + 4, top - 5), (right + 4, top + _BOX + 5)], "vermillion", thick=4)
    table = Table(
        ["tensor", "price of saving it", "hangs on the source because of", "read in the backward by", "side"],
        [
            (_titled(graphs, each), f"{each.capacity:,.0f}", each.banned or None, ", ".join(each.needed), each.side)
            for each in pipes
        ],
        align="lrlll",
    )
    legend = key({meaning: colour for side, (meaning, colour) in SIDES.items() if side in {p.side for p in pipes}})
    alt = f"A network of {len(pipes)} tensors between a source and a sink. {told(graphs)}"
    return Drawing(canvas.svg(), alt, caption, table, provenance, legend)


def told(graphs: TrainingGraphs) -> str:
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
