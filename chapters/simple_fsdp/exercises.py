"""Exercises of chapter 23, letting the compiler schedule the step."""

from collections.abc import Callable

import torch
from torch import fx

from ..exercises.judging import exercise

GATHER = torch.ops._c10d_functional.all_gather_into_tensor.default
SCATTER = torch.ops._c10d_functional.reduce_scatter_tensor.default
WAIT = torch.ops._c10d_functional.wait_tensor.default
CAST, MATMUL = torch.ops.aten.to.dtype, torch.ops.aten.mm.default
BLOCKS, RANKS, GROUP = 3, 8, "0"


def _step() -> fx.Graph:
    """A step as it is traced: each weight is cast, gathered and awaited right before its matmul, and the gradient of
    the last one is scattered.
    """
    graph = fx.Graph()
    x, *slices = (graph.placeholder(name) for name in ("x", *(f"slice_{at}" for at in range(BLOCKS))))
    value = x
    for each in slices:
        cast = graph.call_function(CAST, (each, torch.bfloat16))
        gathered = graph.call_function(GATHER, (cast, RANKS, GROUP))
        value = graph.call_function(MATMUL, (value, graph.call_function(WAIT, (gathered,))))
    scattered = graph.call_function(SCATTER, (graph.call_function(MATMUL, (x, value)), "avg", RANKS, GROUP))
    mean = graph.call_function(WAIT, (scattered,))
    graph.output((graph.call_function(MATMUL, (value, value)), mean))
    return graph


@exercise("23.4", takes=Callable)
def early_starts_and_late_waits(answer: Callable[[fx.Graph], object]) -> str | None:
    """own(graph): starts each all-gather before all matmuls, and moves each wait to right before its first reader."""
    graph = _step()
    inputs = {node.name: [each.name for each in node.all_input_nodes] for node in graph.nodes}
    if isinstance(answer(graph), fx.Graph):
        return "it returns a graph; this pass changes the graph that it is given."
    if {node.name: [each.name for each in node.all_input_nodes] for node in graph.nodes} != inputs:
        return "the nodes are not the same any more, or read something else: nothing is to move but in the order."
    order = {node: at for at, node in enumerate(graph.nodes)}
    for node, at in order.items():
        if late := [each.name for each in node.all_input_nodes if order[each] > at]:
            return f"{node.name} stands before {late[0]}, which it reads."
    matmul = min(order[node] for node in graph.find_nodes(op="call_function", target=MATMUL))
    for number, node in enumerate(graph.find_nodes(op="call_function", target=GATHER)):
        if order[node] > matmul:
            return f"all-gather {number} still starts after a matmul, which it does not need."
    for node in graph.find_nodes(op="call_function", target=WAIT):
        between = list(graph.nodes)[order[node] + 1 : min(order[user] for user in node.users)]
        if late := [each.name for each in between if each.target is not WAIT]:
            return f"between {node.name} and its first reader there is still {late[0]}."
    return None
