"""Training graphs as a reader sees them: code without its wrapping, tables of what is saved and why, a drawing."""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable

from ..page.figures import PALETTE, Figure, plot_text
from ..page.tables import Code, Table
from ..page.units import without_namespace
from ..source import Line
from .nodes import Graph
from .saved import SavedTensor, folded
from .training import TrainingGraphs

MOST_DRAWN = 60  # operations; more do not fit on a screen


def code(graph: Graph) -> Code:
    """A graph as Python, without the class around it and the module paths that every name repeats."""
    lines = [line for line in graph.code.splitlines() if line.strip() and not line.startswith("class ")]
    text = textwrap.dedent("\n".join(lines))
    return Code(text.replace("torch.ops.", "").replace(".default(", "("))


def listing(graph: Graph) -> Code:
    """A graph in few words: one line an operation, without types or constants, with what is saved or computed again."""
    lines = []
    for node in graph.nodes:
        if node.is_op:
            said = "  # saved" if node.saved and graph.stage == "forward" else ""
            said = "  # again" if node.recomputed and graph.stage == "backward" else said
            inputs = ", ".join(graph[name].title or name for name in node.inputs)
            lines.append(f"{node.name} = {without_namespace(node.op)}({inputs}){said}")
    return Code("\n".join(lines), language="text", title=f"{graph.stage}")


def saved(graphs: TrainingGraphs, *, residents: bool = True, fold: bool = True) -> Table:
    """One row a saved tensor, or a fold of them: what it is, its bytes, its line, why it is saved, who reads it.

    ``residents=False`` leaves out what keeps no further byte: inputs, parameters, second views of a buffer.
    """
    tensors = folded(graphs.saved) if fold else graphs.saved
    rows = [
        (
            _what(each, graphs),
            each.count,
            str(list(each.shape)),
            each.extra_nbytes,
            _at(each.source),
            each.why,
            _readers(each),
        )
        for each in tensors
        if residents or each.extra_nbytes
    ]
    columns = ["saved", "×", "shape", "extra bytes", "line", "why it is saved", "read in the backward by"]
    return Table(columns, rows, align="lrlrlll")


def rules(graphs: TrainingGraphs) -> Table:
    """One row a rule of the partitioner: how many tensors it saved, and how many bytes they keep."""
    tensors, extra = Counter[str](), Counter[str]()
    for each in graphs.saved:
        tensors[each.rule] += 1
        extra[each.rule] += each.extra_nbytes
    rows = [(rule, count, extra[rule]) for rule, count in sorted(tensors.items(), key=lambda row: -extra[row[0]])]
    return Table(["the partitioner's rule", "tensors", "extra bytes"], rows)


def recomputed(graphs: TrainingGraphs) -> Table:
    """One row for the recomputed operations of one kind on one line: how many, and the bytes of their results.

    Views are left out: they cost nothing either way.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in graphs.recomputed:
        if each.nbytes:
            groups[without_namespace(each.op), _at(each.source)].append(each.nbytes)
    rows = [(op, len(sizes), line, sum(sizes)) for (op, line), sizes in groups.items()]
    return Table(["computed again", "×", "line", "bytes of the results"], rows)


def decompositions(graphs: TrainingGraphs, calls: Iterable[str] | None = None) -> Table:
    """One row a captured call (or those named in ``calls``): the operations it became in the forward and backward."""
    wanted = None if calls is None else set(calls)
    rows = [
        (Code(each.call), counted(each.forward), counted(each.backward))
        for each in graphs.decompositions
        if wanted is None or each.call in wanted
    ]
    return Table(["called", "in the forward", "in the backward"], rows)


def counted(ops: Iterable[str]) -> str:
    """Operations with how often each occurs, in order: ``mul ×3, add``."""
    counts = Counter(map(without_namespace, ops))
    return ", ".join(op if n == 1 else f"{op} ×{n}" for op, n in counts.items()) or "–"


def comparison(graphs: dict[str, TrainingGraphs]) -> Table:
    """One row for each of several partitions of the same function: operations, saved tensors and bytes."""
    rows = [
        (
            name,
            each.forward.ops,
            each.backward.ops,
            len(each.recomputed),
            sum(bool(tensor.extra_nbytes) for tensor in each.saved),
            each.saved_nbytes,
        )
        for name, each in graphs.items()
    ]
    columns = ["partition", "forward ops", "backward ops", "of them again", "buffers kept", "bytes kept"]
    return Table(columns, rows)


def drawing(graphs: TrainingGraphs) -> Figure:
    """Both graphs in one picture: the forward going down on the left, the backward coming up on the right.

    The lines that cross are what is saved. ValueError for more than 60 operations on one side.
    """
    import plotly.graph_objects as go

    most = max(graphs.forward.ops, graphs.backward.ops)
    if most > MOST_DRAWN:
        raise ValueError(f"{most} operations are too many to draw (at most {MOST_DRAWN}): take a smaller function")
    left, right = _column(graphs.forward, graphs), _column(graphs.backward, graphs)
    places = {("f", n): (0.0, y) for n, y in _spread(left).items()}
    places |= {("b", n): (1.0, -1 - y) for n, y in _spread(right).items()}
    inner, crossing = _edges(graphs, places)
    step = 1 / max(1, min(len(left), len(right)) - 1)
    traces = [
        _lines(go, "reads", inner, step, {"color": PALETTE["grey"], "width": 1}),
        _lines(go, "saved", crossing, step, {"color": PALETTE["orange"], "width": 3, "dash": "dot"}),
    ]
    kinds: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for side, name in places:
        kinds[_kind(graphs, side, name)].append((side, name))
    for (name, colour), symbol in _SYMBOLS.items():
        chosen = kinds.get((name, colour))
        if chosen:
            marker = {"symbol": symbol, "size": 11, "color": PALETTE[colour]}
            traces.append(_marks(go, name, chosen, places, graphs, marker))
    axis = {"visible": False, "fixedrange": True}
    layout = {
        "height": 110 + 30 * max(len(left), len(right)),
        "margin": {"l": 5, "r": 5, "t": 60, "b": 10},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {**axis, "range": [-0.9, 1.9]},
        "yaxis": {**axis, "range": [-1.06, 0.06]},
    }
    across = ", ".join(_what(each, graphs) for each in graphs.saved) or "nothing"
    alt = (
        f"Left, going down, {graphs.forward.ops} forward operations; right, coming up, {graphs.backward.ops} backward "
        f"operations, {len(graphs.recomputed)} of them recomputed. Saved and crossing over: {across}."
    )
    rows = [(_what(each, graphs), _readers(each), each.nbytes) for each in graphs.saved]
    table = Table(["crosses over", "read in the backward by", "bytes"], rows)
    return Figure(go.Figure(traces, layout), alt, f"The two graphs of the {graphs.partitioner} partition", table)


_SYMBOLS = {
    ("input", "grey"): "square",
    ("forward", "blue"): "circle",
    ("backward", "vermillion"): "diamond",
    ("recomputed", "purple"): "star",
}


def _kind(graphs: TrainingGraphs, side: str, name: str) -> tuple[str, str]:
    node = (graphs.forward if side == "f" else graphs.backward)[name]
    if node.op == "input":
        return "input", "grey"
    if side == "f":
        return "forward", "blue"
    return ("recomputed", "purple") if node.recomputed else ("backward", "vermillion")


def _column(graph: Graph, graphs: TrainingGraphs) -> list[str]:
    """What is drawn of a graph: its operations, and the inputs that are not handed over from the other side."""
    over = {each.name for each in graphs.saved} if graph.stage == "backward" else set()
    return [node.name for node in graph.nodes if node.is_op or (node.op == "input" and node.name not in over)]


def _spread(names: list[str]) -> dict[str, float]:
    return {name: -at / max(1, len(names) - 1) for at, name in enumerate(names)}


Place = tuple[float, float]


def _edges(
    graphs: TrainingGraphs, places: dict[tuple[str, str], Place]
) -> tuple[list[tuple[Place, Place]], list[tuple[Place, Place]]]:
    inner, crossing = [], []
    for side, graph in (("f", graphs.forward), ("b", graphs.backward)):
        for node in graph.nodes:
            for name in node.inputs:
                if (side, node.name) not in places:
                    continue
                if (side, name) in places:
                    inner.append((places[side, name], places[side, node.name]))
                elif ("f", name) in places:
                    crossing.append((places["f", name], places[side, node.name]))
    return inner, crossing


def _lines(go, name: str, edges: list[tuple[Place, Place]], step: float, line: dict[str, object]):
    xs, ys = [], []
    for (x0, y0), (x1, y1) in edges:
        # Within a column, an edge that skips nodes bows out to the middle, or the nodes between would hide it.
        bow = 0.0 if x0 != x1 or abs(y1 - y0) < 1.01 * step else (0.25 if x0 == 0 else -0.25) * abs(y1 - y0) ** 0.5
        steps = range(9) if bow else (0, 8)
        xs += [x0 + (x1 - x0) * t / 8 + bow * 4 * (t / 8) * (1 - t / 8) for t in steps] + [None]
        ys += [y0 + (y1 - y0) * t / 8 for t in steps] + [None]
    return go.Scatter(name=name, x=xs, y=ys, mode="lines", line=line, hoverinfo="skip")


def _marks(go, name, chosen, places, graphs, marker):
    sides = {"f": graphs.forward, "b": graphs.backward}
    nodes = [sides[side][node] for side, node in chosen]
    return go.Scatter(
        name=name,
        x=[places[at][0] for at in chosen],
        y=[places[at][1] for at in chosen],
        mode="markers+text",
        marker=marker,
        text=[
            plot_text(node.title or (node.name if node.op == "input" else without_namespace(node.op))) for node in nodes
        ],
        textposition=["middle left" if side == "f" else "middle right" for side, _ in chosen],
        hovertext=[plot_text(f"{node.name} {node.dtype}{list(node.shape or ())}") for node in nodes],
        hoverinfo="text",
    )


def _what(each: SavedTensor, graphs: TrainingGraphs) -> str:
    if each.op == "input":
        return each.title
    of = each.title or (without_namespace(_maker(each.view_of, graphs)) if each.view_of else "")
    return f"{without_namespace(each.op)} of {of}" if of else without_namespace(each.op)


def _maker(name: str, graphs: TrainingGraphs) -> str:
    """The operation behind a node; of a member of a tuple, what made the tuple."""
    node = graphs.forward[name]
    return _maker(node.inputs[0], graphs) if node.op == "getitem" else node.op


def _readers(each: SavedTensor) -> str:
    return counted(reader.op for reader in each.readers)


def _at(line: Line | None) -> str:
    return str(line) if line else "–"
