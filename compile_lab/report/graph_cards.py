"""The cards on AOTAutograd's graphs and on memory. Pure functions of what was captured."""

from collections import Counter
from typing import Any

import torch
from torch.fx.node import map_arg

from ..aot.nodes import Graph
from ..aot.saved import SavedTensor, folded
from ..aot.training import TrainingGraphs
from ..eager.flops import flops_of
from ..memory.ledger import Lifetimes
from ..page.units import with_unit
from ..tensors import nbytes
from ..virtual_gpu.chips import chip as chip_named
from .captured import Captured
from .cards import CardCurve, CardFigure, CardPart, CardTable, CardText, ReportCard

FIRST_SAVED, MOST_SAVED = 12, 60
SAVED_COLUMNS = ("tensor", "times", "shape", "dtype", "bytes", "line", "why it is kept")
ATTACKED = 5
MOST_POINTS = 1500
CURES = {
    "activation": "checkpoint the block that makes it, or `torch._functorch.config.activation_memory_budget` "
    "(with dropout, 0 or 1 alone: chapter 08)",
    "gradient": "shard it (FSDP), or accumulate less at a time",
    "temporary": "a smaller batch, or a fused or chunked form of this line",
}


def joint_card(found: Captured) -> ReportCard:
    """How much work the step is: operations, floating-point operations, bytes."""
    each = found.graphs.each
    rows, flops = [], 0
    for at, graphs in enumerate(each, 1):
        for graph in (graphs.joint, graphs.forward, graphs.backward):
            work = sum(graph_flops(graph))
            flops += work if graph.stage != "joint" else 0
            made = sum(node.nbytes for node in graph.nodes if node.is_op)
            rows.append((f"{graph.stage} {at}" if len(each) > 1 else graph.stage, graph.ops, work, made))
    ops = sum(graphs.joint.ops for graphs in each)
    again = sum(len(graphs.recomputed) for graphs in each)
    split = "" if len(each) == 1 else f" in {len(each)} graphs, the loss included, since the forward broke"
    verdict = (
        f"{ops:,} operations{split}, {flops / 1e9:,.3g} GFLOP in forward and backward; {again} operations run twice "
        "so that their results need not be kept."
    )
    table = CardTable(("graph", "operations", "floating-point operations", "bytes of its results"), tuple(rows))
    kinds = Counter(node.op for graphs in each for node in graphs.joint.nodes if node.is_op).most_common(25)
    listed = CardTable(("operation", "times"), tuple(kinds), folded="The operations of the joint graph, most first")
    said = CardText("Counted by torch's formulas: two for each multiplication and addition of a matrix product.")
    figures = (
        CardFigure("operations of the joint graph", ops),
        CardFigure("floating-point operations of a step", flops),
        CardFigure("operations that run twice", again),
    )
    severity = "good" if len(each) == 1 else "look"
    return ReportCard("joint", "The joint graph", verdict, severity, (table, said, listed), figures)


def graph_flops(graph: Graph) -> list[int]:
    """Floating-point operations of each call of a graph that has any."""
    found = []
    for node in graph.module.graph.nodes:
        if node.op == "call_function":
            args, kwargs = _values(node.args), _values(node.kwargs)
            found.append(flops_of(node.target, args, kwargs, node.meta.get("val")))
    return [each for each in found if each]


def _values(arguments: Any) -> Any:
    """A node's arguments as it was traced with: for each node among them, its value."""
    return map_arg(arguments, lambda node: node.meta.get("val") if isinstance(node, torch.fx.Node) else node)


def saved_card(found: Captured) -> ReportCard:
    """What the forward keeps for the backward, by line, and by module."""
    graphs = found.graphs.each
    saved = [each for one in graphs for each in one.saved if each.extra_nbytes]
    total = sum(each.extra_nbytes for each in saved)
    kinds = sorted(folded(saved), key=lambda each: -each.extra_nbytes)
    rows = tuple(_saved_row(each) for each in kinds)
    parameters = sum(map(nbytes, found.given.model.parameters()))
    most = kinds[0] if kinds else None
    verdict = f"{with_unit(total)} in {len(saved)} buffers are kept for the backward"
    if parameters:
        verdict += f", {total / parameters:.3g} times the parameters"
    verdict += f"; most of it by `{_line(most)}` ({with_unit(most.extra_nbytes)})." if most else "."
    by_module: Counter[str] = Counter()
    for one in graphs:
        for each in one.saved:
            by_module[found.given.titled(f"{one.forward[each.name].module}") or "outside of modules"] += (
                each.extra_nbytes
            )
    modules = tuple((name, size) for name, size in by_module.most_common(MOST_SAVED) if size)
    parts = (
        CardTable(SAVED_COLUMNS, rows[:FIRST_SAVED]),
        CardTable(SAVED_COLUMNS, rows[FIRST_SAVED:MOST_SAVED], folded="Smaller ones"),
        CardTable(("module", "bytes kept"), modules, folded="By module"),
    )
    figures = (CardFigure("buffers kept", len(saved)), CardFigure("kept for the backward", total, "bytes"))
    return ReportCard("saved", "What is kept for the backward", verdict, "good", parts, figures)


def _saved_row(each: SavedTensor) -> tuple[str | int, ...]:
    where = f"{each.source}: {each.source.text}" if each.source else ""
    return each.op, each.count, str(list(each.shape)), each.dtype, each.extra_nbytes, where, each.why


def _line(each: SavedTensor) -> str:
    return each.source.text if each.source and each.source.text else each.op


def memory_card(found: Captured) -> ReportCard:
    """When what is alive, where the peak is, which five tensors to attack, and whether the step fits the chip."""
    memory, chip = found.memory, chip_named(found.options.chip)
    trainable = [each for each in found.given.model.parameters() if each.requires_grad]
    adamw = 2 * sum(map(nbytes, trainable))
    whole = memory.resident_nbytes + adamw + memory.peak_nbytes
    share = whole / chip.memory_nbytes
    fits = "fits" if share <= 1 else "does not fit"
    at = memory.timeline[memory.peak_at]
    where = f", at `{at.source.text or at.source}`" if at.source else ""
    bound = "at most " if "upper bound" in _read_from(found) else ""
    verdict = (
        f"The peak is {bound}{with_unit(memory.peak_nbytes)} above what was there, in the {at.phase}{where}; with "
        f"parameters, inputs and AdamW's state {with_unit(whole)}, which {fits} a {chip.name} of "
        f"{with_unit(chip.memory_nbytes)}."
    )
    alive = memory.alive_at(memory.peak_at)
    rows = tuple(
        (
            each.name,
            each.kind,
            each.nbytes,
            f"{each.source}: {each.source.text}" if each.source else "",
            CURES[each.kind],
        )
        for each in alive[:ATTACKED]
        if each.kind in CURES
    )
    kinds = tuple((kind, size) for kind, size in memory.peak_by_kind().items())
    kinds += (("parameters and inputs, there before", memory.resident_nbytes), ("AdamW's state, if you use it", adamw))
    parts: tuple[CardPart, ...] = (
        curve(memory),
        CardTable(("attack first", "kind", "bytes", "line", "how"), rows),
        CardTable(("at the peak", "bytes"), kinds),
        CardText(_read_from(found)),
    )
    severity = "bad" if share > 1 else "look" if share > 0.8 else "good"
    figures = (
        CardFigure("peak above what was there", memory.peak_nbytes, "bytes"),
        CardFigure("peak with parameters, inputs and AdamW's state", whole, "bytes"),
    )
    return ReportCard("memory", "Lifetimes and the predicted peak", verdict, severity, parts, figures)


def _read_from(found: Captured) -> str:
    code = found.parts.get("code")
    if getattr(code, "trouble", None) == () and len(getattr(code, "graphs", ())) == 2:
        return (
            f"Read off the code that Inductor wrote for a virtual {found.options.chip}, for one step; nothing was run. "
            "What a library takes for itself inside a call, as a convolution may, comes on top."
        )
    if isinstance(found.parts.get("graphs"), TrainingGraphs) and found.graphs.others:
        return (
            f"An upper bound, read off {len(found.graphs.each)} graphs run in turn: what one hands to the next counts "
            "to the end of the step. What Python computes between them, and fusion, are not in it."
        )
    return "Read off AOTAutograd's graphs: the code for the chip is not whole, so fusion is not in these numbers."


def curve(memory: Lifetimes) -> CardCurve:
    """The bytes alive, operation by operation; of a long step the most of each stretch, so that no peak is lost."""
    live = [moment.live_bytes for moment in memory.timeline]
    step = -(-len(live) // MOST_POINTS)
    turn = next((at for at, each in enumerate(memory.timeline) if each.phase != "forward"), len(live))
    thin = tuple(max(live[at : at + step]) for at in range(0, len(live), step))
    return CardCurve(thin, turn // step, memory.peak_at // step, str(memory))
