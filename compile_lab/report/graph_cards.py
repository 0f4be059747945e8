"""The cards on AOTAutograd's graphs and on memory. Pure functions of what was captured."""

from collections import Counter
from typing import Any

import torch
from torch.fx.node import map_arg

from ..aot.nodes import Graph
from ..aot.saved import SavedTensor, folded
from ..aot.training import TrainingGraphs
from ..dynamo.tracing import DynamoTrace
from ..eager.flops import flops_of
from ..memory.ledger import Lifetimes
from ..page.units import percent, with_unit
from ..tensors import nbytes
from ..virtual_gpu.chips import chip as chip_named
from .captured import Captured
from .cards import CardCurve, CardFigure, CardPart, CardTable, CardText, ReportCard

FIRST_SAVED, MOST_SAVED = 12, 60
SAVED_COLUMNS = ("tensor", "times", "shape", "dtype", "bytes", "line", "why it is kept")
ATTACKED = 5
MOST_POINTS = 1500
CURES = {
    "activation": "checkpoint the block that makes it",
    "gradient": "shard it (FSDP), or accumulate less at a time",
    "temporary": "a smaller batch, or a fused or chunked form of this line",
}


ALL = 0.99
"""Of eager's floating-point operations: graphs that hold so much of them hold the whole forward."""


def part_of(found: Captured) -> str:
    """What is not in the graphs and all that is read off them, in words; "" where the whole forward is."""
    trace, graphs, eager = found.parts.get("trace"), found.parts.get("graphs"), found.eager
    if step := found.given.step:
        assert step.main is not None  # `given` refuses a step without one
        share = ""
        if isinstance(graphs, TrainingGraphs) and eager and eager.flops:
            flops = sum(sum(graph_flops(one)) for each in graphs.each for one in (each.forward, each.backward))
            share = f", {percent(flops / eager.flops)} of the matmul FLOPs of `{step.name}`"
        return f"one call of `{step.main.name}` and a backward of its own{share}"
    if not isinstance(trace, DynamoTrace) or not trace.breaks:
        return ""
    if lost := sorted({f"`{each.function}`" for each in trace.breaks if each.skipped_for}):
        return f"{', '.join(lost)}, left to Python, {'is' if len(lost) == 1 else 'are'} not in it"
    if isinstance(graphs, TrainingGraphs) and eager:
        held = sum(sum(graph_flops(each.forward)) for each in graphs.each)
        if eager.forward_flops and held < ALL * eager.forward_flops:
            share = percent(held / eager.forward_flops)
            return f"{share} of the forward's matmul FLOPs are in it; Python runs the rest"
    return "what Python runs between its graphs is not in it"


def eagerly(found: Captured, name: str) -> str:
    """What the card of that name would say of the whole step as eager runs it; "" where that is not known."""
    if not (eager := found.eager):
        return ""
    said = {"joint": f"the step runs {eager.ops:,} operations, with {eager.flops / 1e9:,.3g} GFLOP in matmuls"}
    if eager.saved_nbytes is not None:
        said["saved"] = f"{with_unit(eager.saved_nbytes)} are kept for the backward"
    return f"Eagerly, {said[name]}." if name in said else ""


def step_card(found: Captured) -> ReportCard:
    """A whole step, as its author runs it: which modules it calls, what it differentiates, what that is."""
    step, eager = found.given.step, found["eager"]
    assert step is not None and step.main is not None  # the card is of such a step alone
    rows = tuple((each.name, each.times, each.without_gradient, each.flops) for each in step.calls)
    columns = ("module", "calls", "of them without a gradient", "floating-point operations in its calls")
    backwards = f"{step.backwards} {'backward' if step.backwards == 1 else 'backwards'}"
    kinds = ", ".join(type(each).__name__ for each in step.optimizers)
    modules = f"{len(step.calls)} {'module' if len(step.calls) == 1 else 'modules'}"
    verdict = (
        f"`{step.name}` calls {modules}, runs {backwards} and "
        f"{f'steps {kinds}' if kinds else 'no optimizer'}: {eager.ops:,} operations, {eager.flops / 1e9:,.3g} GFLOP in "
        f"matmuls, eagerly. Graphs and kernels are those of `{step.main.name}` alone."
    )
    figures = (
        CardFigure("operations of the step", eager.ops),
        CardFigure("its floating-point operations", eager.flops),
    )
    return ReportCard("step", "The step as you run it", verdict, "look", (CardTable(columns, rows),), figures)


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
    said = CardText("Counted by torch's formulas: two for each multiplication and addition of a matmul.")
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
    chip, eager = chip_named(found.options.chip), _seen_in_eager(found)
    memory = found.memory
    # A step's own optimizers have theirs already, among what is there before it.
    state = None if found.given.step else found.state
    optimizer = () if state is None or state.nbytes is None else ((state.called, state.nbytes),)
    known = bool(optimizer)
    remembered = f"{state.name}'s state" if state else "what its optimizers remember"
    held = f"parameters, inputs and {remembered}" if known or not state else "parameters and inputs"
    whole = memory.resident_nbytes + memory.peak_nbytes + sum(each for _, each in optimizer)
    share = whole / chip.memory_nbytes
    fits = "fits" if share <= 1 else "does not fit"
    at = memory.timeline[memory.peak_at]
    where = f", at `{at.source.text or at.source}`" if at.source else ""
    run = " of the step as eager runs it" if eager else ""
    verdict = (
        f"The peak{run} is {with_unit(memory.peak_nbytes)} above what was there, in the {at.phase}{where}; with "
        f"{held} {with_unit(whole)}, which {fits} {chip.one} of {with_unit(chip.memory_nbytes)}."
    )
    if state and not known:
        verdict += f" What {state.name} remembers is not in it: {state.why}."
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
    kinds += (("parameters and inputs, there before", memory.resident_nbytes), *optimizer)
    parts: tuple[CardPart, ...] = (
        curve(memory),
        CardTable(("attack first", "kind", "bytes", "line", "how"), rows),
        CardTable(("at the peak", "bytes"), kinds),
        CardText(_read_from(found)),
    )
    severity = "bad" if share > 1 else "look" if share > 0.8 or (state and not known) else "good"
    figures = (
        CardFigure("peak above what was there", memory.peak_nbytes, "bytes"),
        CardFigure(f"peak with {held}", whole, "bytes"),
    )
    return ReportCard("memory", "Lifetimes and the predicted peak", verdict, severity, parts, figures)


def _seen_in_eager(found: Captured) -> str:
    """Why the memory is that of an eager step, in words; "" where it is read off graphs."""
    if not found.eager:
        return ""
    if part := part_of(found):
        return f"the graphs are a part of it: {part}"
    if not isinstance(found.parts.get("graphs"), TrainingGraphs):
        return "there is no joint graph to read it off"
    if found.compiled and found.compiled.raised:
        return "compiled it raises"
    return "" if isinstance(found.parts.get("memory"), Lifetimes) else "it could not be read off compiled code"


def _read_from(found: Captured) -> str:
    if eager := _seen_in_eager(found):
        return f"Seen in one eager step, since {eager}. Compiled, the step needs less where operations are fused."
    code = found.parts.get("code")
    if getattr(code, "trouble", None) == () and len(getattr(code, "graphs", ())) == 2:
        return (
            f"Read off the code that Inductor wrote for a virtual {found.options.chip}, for one step; nothing was run. "
            "What a library takes for itself inside a call, as a convolution may, comes on top."
        )
    if found.compiled and found.compiled.memory is found.memory:
        return (
            "Read off the code that Inductor wrote for this machine's CPU, since that for the chip is not whole: a "
            "GPU's kernels and libraries take other buffers."
        )
    return "Read off AOTAutograd's graphs: no code was generated, so fusion is not in these numbers."


def curve(memory: Lifetimes) -> CardCurve:
    """The bytes alive, operation by operation; of a long step the most of each stretch, so that no peak is lost."""
    live = [moment.live_bytes for moment in memory.timeline]
    step = -(-len(live) // MOST_POINTS)
    turn = next((at for at, each in enumerate(memory.timeline) if each.phase != "forward"), len(live))
    thin = tuple(max(live[at : at + step]) for at in range(0, len(live), step))
    return CardCurve(thin, turn // step, memory.peak_at // step, str(memory))
