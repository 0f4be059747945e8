"""The cut through the joint graph as a picture: forward left, backward right, and between them what is kept, in bytes.

Two scales of it: a band for each call of a whole module, and every operation of a small function.
"""

from collections import defaultdict
from collections.abc import Mapping

from compile_lab.aot.nodes import Node
from compile_lab.aot.saved import SavedTensor
from compile_lab.aot.training import TrainingGraphs
from compile_lab.aot.view import counted
from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Code, Table
from compile_lab.page.units import with_unit, without_namespace

FAMILIES = {
    "the result of a matmul or of attention": "blue",
    "the operand of a matmul": "orange",
    "the cheapest place to cut": "purple",
}
"""Why a tensor is kept, in three families, and their colours."""

_BOX, _ROW, _HEAD, _THICKEST, _FLAT = 250, 40, 40, 30, 100
_OF_MODULES = ("linear", "layer_norm", "embedding")
"""Calls that a module is made for: its name says more than theirs."""


def family(each: SavedTensor) -> str:
    """One of `FAMILIES`."""
    matmul, operand, cheapest = FAMILIES
    return {"not in recomputable allowlist": matmul, "materialized in backward": operand}.get(each.rule, cheapest)


def bands(graphs: TrainingGraphs, caption: str = "", provenance: object | None = None) -> Drawing:
    """A row for each call of the forward, its gradient opposite; what is kept between them as bands, by their bytes.

    Rows are the captured calls that compute something (views are left out); inputs and parameters, which keep no
    further byte, are too. Raises ValueError where nothing is kept.
    """
    kept = [each for each in graphs.saved if each.extra_nbytes]
    if not kept:
        raise ValueError("nothing to draw: this function keeps no byte besides its inputs")
    rows = _rows(graphs)
    places = {call: _HEAD + at * _ROW for at, call in enumerate(rows)}
    canvas = Canvas(size=20)
    canvas.words(0, 22, "forward ↓", bold=True)
    canvas.words(WIDTH, 22, "backward ↑", anchor="end", bold=True)
    total = with_unit(graphs.saved_nbytes)
    canvas.words(WIDTH / 2, 22, f"kept in between: {total}", anchor="middle", bold=True)
    most = max(each.extra_nbytes for each in kept)
    made = defaultdict(list)
    for each in sorted(kept, key=lambda each: -each.extra_nbytes):
        made[_maker(each, graphs).called].append(each)
    for call, tensors in made.items():
        for tensor in tensors:
            for at, reader in enumerate(_reading(tensor, graphs, places)):
                _band(canvas, places[call], places[reader], tensor, most, told=not at)
    for call, name in rows.items():
        again = sum(node.recomputed and not is_view(node) for node in graphs.backward.nodes if node.called == call)
        canvas.box(0, places[call], _BOX, _ROW - 8, "sky", name)
        told = f"{name} · {again} again" if again else name
        canvas.box(WIDTH - _BOX, places[call], _BOX, _ROW - 8, "vermillion", told)
    table = Table(
        ["made by", "read by the gradient of", "bytes", "why it is kept"],
        [
            (
                rows[call],
                ", ".join(rows[at] for at in _reading(tensor, graphs, places)),
                tensor.extra_nbytes,
                tensor.why,
            )
            for call, tensors in made.items()
            for tensor in tensors
        ],
    )
    alt = (
        f"Left, going down, the calls of the forward: {', '.join(rows.values())}; right, coming up, their gradients. "
        f"{total} are kept in between: "
        + "; ".join(f"{with_unit(row[2])} from {row[0]} to the gradient of {row[1]}" for row in table.rows)
        + "."
    )
    return Drawing(canvas.svg(), alt, caption, table, provenance, key(FAMILIES))


MOST_DRAWN = 30  # operations; more do not fit on a screen


def operations(graphs: TrainingGraphs, caption: str = "", table: Table | None = None) -> Drawing:
    """Every operation with its bytes: the forward going down on the left, the backward coming up on the right.

    Bands that cross are what is saved, as thick as its bytes; dashed ones are inputs, which are there anyway.
    ValueError for more than 30 operations on one side.
    """
    most = max(graphs.forward.ops, graphs.backward.ops)
    if most > MOST_DRAWN:
        raise ValueError(f"{most} operations are too many to draw (at most {MOST_DRAWN}): take a smaller function")
    over = {each.name: each for each in graphs.saved}
    left = [node for node in graphs.forward.nodes if node.is_op or node.op == "input"]
    right = [node for node in graphs.backward.nodes if node.is_op or (node.op == "input" and node.name not in over)]
    rows = max(len(left), len(right))
    tops = {("f", node.name): _HEAD + at * _STEP for at, node in enumerate(left)}
    tops |= {("b", node.name): _HEAD + (rows - 1 - at) * _STEP for at, node in enumerate(right)}
    canvas = Canvas(size=18)
    canvas.words(_SIDE, 20, "forward ↓", bold=True)
    canvas.words(WIDTH - _SIDE, 20, "backward ↑", anchor="end", bold=True)
    canvas.words(WIDTH / 2, 20, f"kept: {with_unit(graphs.saved_nbytes)}", anchor="middle", bold=True)
    for side, nodes in (("f", left), ("b", right)):
        for node in nodes:
            for name in node.inputs:
                if (side, name) in tops:
                    _read_within(canvas, side, tops[side, name], tops[side, node.name])
    widest = max((each.extra_nbytes for each in over.values()), default=0)
    for node in right:
        for name in node.inputs:
            if name in over and ("f", name) in tops:
                _crossing(canvas, tops["f", name], tops["b", node.name], over[name], widest)
    for side, nodes in (("f", left), ("b", right)):
        for node in nodes:
            x = _SIDE if side == "f" else WIDTH - _SIDE - _WIDE
            named = node.title or (node.name if node.op == "input" else without_namespace(node.op).partition(".")[0])
            told = f"{named} · {with_unit(node.nbytes)}"
            canvas.box(x, tops[side, node.name], _WIDE, _STEP - 10, _paint(side, node), told)
    across = "; ".join(f"{each.title or each.op} {with_unit(each.nbytes)}" for each in over.values()) or "nothing"
    alt = (
        f"Left, going down, {graphs.forward.ops} forward operations; right, coming up, {graphs.backward.ops} backward "
        f"operations, {len(graphs.recomputed)} of them recomputed. Saved and crossing over: {across}."
    )
    legend = key({"input": "grey", "forward": "sky", "backward": "vermillion", "computed again": "purple"})
    return Drawing(canvas.svg(), alt, caption, table, None, f"{legend} &nbsp; orange: kept; dashed: there anyway")


_SIDE, _WIDE, _STEP = 90, 250, 40


def _paint(side: str, node: Node) -> str:
    if node.op == "input":
        return "grey"
    if side == "f":
        return "sky"
    return "purple" if node.recomputed else "vermillion"


def _read_within(canvas: Canvas, side: str, start: float, end: float) -> None:
    """Who reads whom within a column: the neighbour by a short line, others by a bracket on the outer side."""
    half, apart = (_STEP - 10) / 2, abs(end - start) / _STEP
    edge = _SIDE if side == "f" else WIDTH - _SIDE
    if apart <= 1:
        middle = edge + (_WIDE / 2 if side == "f" else -_WIDE / 2)
        canvas.line([(middle, start + half), (middle, end + half)], "grey")
        return
    out = edge - (12 + 9 * apart) * (1 if side == "f" else -1)
    points = [(edge, start + half + 5), (out, start + half + 5), (out, end + half - 5), (edge, end + half - 5)]
    canvas.line(points, "grey", thick=1.5)


def _crossing(canvas: Canvas, start: float, end: float, each: SavedTensor, widest: int) -> None:
    half = (_STEP - 10) / 2
    thick = 3 + 9 * each.extra_nbytes / widest if widest else 3
    x = _SIDE + _WIDE
    points = [(x, start + half), (x + 110, start + half), (WIDTH - x - 20, end + half), (WIDTH - x, end + half)]
    canvas.line(points, "orange", thick=thick if each.extra_nbytes else 2.5, dashed=not each.extra_nbytes)
    if each.extra_nbytes:
        canvas.words(x + 8, start + half - thick / 2 - 3, with_unit(each.extra_nbytes), bold=True)


def decomposed(several: Mapping[str, TrainingGraphs], caption: str = "") -> Drawing:
    """Bars of the operations that each captured call became, forward and backward, for each of several tables by name.

    Raises ValueError without a call.
    """
    found: dict[str, dict[str, tuple[list[str], list[str]]]] = {name: {} for name in several}
    for name, graphs in several.items():
        for each in graphs.decompositions:
            ahead, back = found[name].setdefault(each.call, ([], []))
            ahead += each.forward
            back += each.backward
    calls = list(dict.fromkeys(call for of in found.values() for call in of))
    if not calls:
        raise ValueError("nothing to draw: no call was captured")
    both = [len(ahead) + len(back) for of in found.values() for ahead, back in of.values()]
    left, bar = 400, 24
    scale = (WIDTH - left - 60) / max(both)
    canvas = Canvas(size=19)
    rows, top = [], 0.0
    for call in calls:
        canvas.words(0, top + 19, call, code=True, bold=True)
        for name, of in found.items():
            if call not in of:
                continue
            ahead, back = map(len, of[call])
            canvas.words(left - 10, top + 18, name, anchor="end", size=17)
            canvas.box(left, top, ahead * scale, bar, "sky", str(ahead), title=f"{ahead} in the forward")
            canvas.box(left + ahead * scale, top, back * scale, bar, "vermillion", str(back), title=f"{back} backward")
            rows.append((Code(call), name, *map(counted, of[call])))
            top += bar + 4
        top += 14
    told = "; ".join(
        f"{call}, {name}: {len(of[call][0])} forward and {len(of[call][1])} backward"
        for call in calls
        for name, of in found.items()
        if call in of
    )
    table = Table(["called", "table", "in the forward", "in the backward"], rows)
    legend = key({"operations in the forward": "sky", "in the backward": "vermillion"})
    return Drawing(canvas.svg(), f"{told}.", caption, table, None, legend)


def _band(canvas: Canvas, start: float, end: float, tensor: SavedTensor, most: int, told: bool) -> None:
    middle = (_ROW - 8) / 2
    thick = max(1.5, _THICKEST * tensor.extra_nbytes / most)
    points = [(_BOX, start + middle), (_BOX + _FLAT, start + middle), (WIDTH - _BOX - 60, end + middle)]
    canvas.line([*points, (WIDTH - _BOX, end + middle)], FAMILIES[family(tensor)], thick=thick)
    if told and thick > 4:
        colour = "#FFFFFF" if family(tensor) == next(iter(FAMILIES)) else "#000000"
        inside = thick > 17
        y = start + middle + (6 if inside else -thick / 2 - 3)
        canvas.words(
            _BOX + 8, y, with_unit(tensor.extra_nbytes), size=19, bold=True, colour=colour if inside else "ink"
        )


def _rows(graphs: TrainingGraphs) -> dict[str, str]:
    """The captured calls with an operation that is no view, in order, and what to call them."""
    found: dict[str, str] = {}
    for node in graphs.forward.nodes:
        if node.is_op and node.called and not is_view(node) and node.called not in found:
            call = node.called.rstrip("0123456789").rstrip("_")
            found[node.called] = node.module if call in _OF_MODULES and node.module else call.split("_")[-1]
    return found


def is_view(node: Node) -> bool:
    """Whether an operation only shows a part of another's data, or another shape of it."""
    return without_namespace(node.op).partition(".")[0] in ("view", "permute", "getitem", "unbind", "t", "expand")


def _maker(each: SavedTensor, graphs: TrainingGraphs) -> Node:
    return graphs.forward[each.view_of or each.name]


def _reading(each: SavedTensor, graphs: TrainingGraphs, places: dict[str, float]) -> list[str]:
    """The calls whose gradients read it, or compute something of it again; a view only hands it on."""
    found, waiting = [], [each.name]
    for name in waiting:
        for node in graphs.backward.nodes:
            if node.is_op and name in node.inputs:
                if node.recomputed and is_view(node):
                    waiting.append(node.name)
                elif node.called in places:
                    found.append(node.called)
    return list(dict.fromkeys(found))
