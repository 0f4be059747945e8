"""The cut through the joint graph as a picture: what the forward keeps for the backward, for whose gradients, in bytes.

Two scales of it: a row for each call of a whole module, and for every operation of a small function.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from compile_lab.aot.nodes import Graph, Node
from compile_lab.aot.saved import SavedTensor
from compile_lab.aot.training import TrainingGraphs
from compile_lab.aot.view import counted
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments
from compile_lab.page.tables import Code, Table
from compile_lab.page.units import percent, with_unit, without_namespace

FAMILIES = {
    "the result of a matmul or of attention": "blue",
    "the operand of a matmul": "green",
    "the cheapest place to cut": "orange",
}
"""Why a tensor is kept, in three families, and their colours."""
OTHERS = {"input": "grey", "forward": "sky", "backward": "vermillion", "computed again": "purple"}
"""Further tensors of a graph, and their colours."""

_OF_MODULES = ("linear", "layer_norm", "embedding")
"""Calls that a module is made for: its name says more than theirs."""


def family(each: SavedTensor) -> str:
    """One of `FAMILIES`."""
    matmul, operand, cheapest = FAMILIES
    return {"not in recomputable allowlist": matmul, "materialized in backward": operand}.get(each.rule, cheapest)


def kept(graphs: TrainingGraphs, caption: str = "", provenance: object | None = None) -> Drawing:
    """A row for each call of the forward: what of it is kept, and behind it for whose gradients, and what runs again.

    Rows are the captured calls that compute something (views are left out); inputs and parameters, which keep no
    further byte, are too. Raises ValueError where nothing is kept.
    """
    made = defaultdict(list)
    for each in sorted(graphs.saved, key=lambda each: -each.extra_nbytes):
        if each.extra_nbytes:
            made[_maker(each, graphs).called].append(each)
    if not made:
        raise ValueError("nothing to draw: this function keeps no byte besides its inputs")
    calls, rows, listed, sums = _calls(graphs), [], [], dict.fromkeys(FAMILIES, 0)
    for call, name in calls.items():
        parts, readers = [], []
        for tensor in made[call]:
            reading = [calls[at] for at in _reading(tensor, graphs, calls)]
            readers += reading
            sums[family(tensor)] += tensor.extra_nbytes
            title = f"{with_unit(tensor.extra_nbytes)} for {', '.join(reading)}: {tensor.why}"
            parts.append(Segment(family(tensor), tensor.extra_nbytes / 1e3, title=title))
            listed.append((name, ", ".join(reading), tensor.extra_nbytes, tensor.why))
        again = sum(node.recomputed and not is_view(node) for node in graphs.backward.nodes if node.called == call)
        told = [f"for {', '.join(dict.fromkeys(readers))}"] * bool(readers) + [f"{again} computed again"] * bool(again)
        rows.append(Row(name, parts, after=" · ".join(told) or "nothing kept"))
    most = max(sums, key=sums.__getitem__)
    share = percent(sums[most] / graphs.saved_nbytes)
    return segments(
        rows,
        Axis("kept for the backward", "kB"),
        title=f"{with_unit(graphs.saved_nbytes)} are kept; {share} of it is {most}.",
        caption=caption,
        colours=FAMILIES,
        provenance=provenance,
        table=Table(["made by", "read by the gradient of", "bytes", "why it is kept"], listed),
    )


def operations(graphs: TrainingGraphs, table: Table) -> Drawing:
    """A row for every operation of a small function with the bytes of its result; behind what is kept, who reads it."""
    over = {each.name: each for each in graphs.saved}
    held = [each for each in over.values() if each.extra_nbytes]
    return segments(
        [*_operations(graphs.forward, over), *_operations(graphs.backward, over)],
        Axis("result", "bytes"),
        title=f"{len(held)} results of the forward are kept, {with_unit(graphs.saved_nbytes)} besides the inputs.",
        colours={**OTHERS, **FAMILIES},
        table=table,
    )


def _operations(graph: Graph, over: Mapping[str, SavedTensor]) -> Iterator[Row]:
    for node in graph.nodes:
        each = over.get(node.name)
        if not (node.is_op or node.op == "input") or (each and graph.stage == "backward"):
            continue
        series = "input" if node.op == "input" else "computed again" if node.recomputed else graph.stage
        series = family(each) if each and each.extra_nbytes else series
        told = with_unit(node.nbytes)
        if each:
            told += (
                f", {'kept for' if each.extra_nbytes else 'read by'} {counted(reader.op for reader in each.readers)}"
            )
        name = node.title or (node.name if node.op == "input" else without_namespace(node.op).partition(".")[0])
        yield Row(name, {series: node.nbytes}, told, group=graph.stage)


def decomposed(several: Mapping[str, TrainingGraphs]) -> Drawing:
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
    parts = [(call, name, *of[call]) for call in calls for name, of in found.items() if call in of]
    sums = (f"{sum(len(ahead) + len(back) for ahead, back in of.values())} ({name})" for name, of in found.items())
    return segments(
        [Row(name, {"forward": len(ahead), "backward": len(back)}, group=call) for call, name, ahead, back in parts],
        Axis("operations of the joint graph"),
        title=f"{len(calls)} calls become {' or '.join(sums)} operations.",
        colours=OTHERS,
        table=Table(
            ["called", "table", "in the forward", "in the backward"],
            [(Code(call), name, counted(ahead), counted(back)) for call, name, ahead, back in parts],
        ),
    )


def _calls(graphs: TrainingGraphs) -> dict[str, str]:
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


def _reading(each: SavedTensor, graphs: TrainingGraphs, calls: Mapping[str, str]) -> list[str]:
    """The calls whose gradients read it, or compute something of it again; a view only hands it on."""
    found, waiting = [], [each.name]
    for name in waiting:
        for node in graphs.backward.nodes:
            if node.is_op and name in node.inputs:
                if node.recomputed and is_view(node):
                    waiting.append(node.name)
                elif node.called in calls:
                    found.append(node.called)
    return list(dict.fromkeys(found))
