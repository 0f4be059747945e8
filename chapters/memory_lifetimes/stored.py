"""A joint graph as numbers: all that ``simulator.budget`` needs to partition it at any budget, without torch.

``stored_graph(fn, *args)`` traces once, lets torch solve one small budget, and keeps what torch's partitioner was
given: its three networks and its knapsack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from compile_lab._torch.aot import aot_pieces
from compile_lab._torch.dynamo import compiled_anew
from compile_lab.aot.nodes import Graph, graph_of, input_titles
from compile_lab.aot.training import Backend, snapshot
from compile_lab.doors import door
from compile_lab.memory.graphs import ALL, _laid_out_alike, _members, _tensor, _updates, _writes_in_place, viewed

LITTLE = 1e-6
"""A budget for which torch goes all the way: three cuts, and a knapsack."""


@door
def stored_graph(fn: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """The joint graph of ``fn(*args)``, a loss, and what torch's partitioner makes of it, as plain JSON values.

    ``simulator.joint_graphs.from_json`` reads them. Raises ValueError for a function that breaks into several
    graphs, that needs no gradient, or that changes an input.
    """
    backend = _Storing()
    with compiled_anew():
        torch.compile(fn, backend=backend)(*args)
    if backend.changes_input:
        raise ValueError("this function changes an input (a batch norm's statistics?), and is not stored")
    if backend.captured != 1 or backend.stored is None:
        raise ValueError(f"{backend.captured} graphs were captured, and one with a backward is needed to store it")
    return backend.stored


class _Storing(Backend):
    def __init__(self) -> None:
        super().__init__("min_cut", "inductor", LITTLE)
        self.stored: dict[str, Any] | None = None
        self.changes_input = False

    def split(
        self, captured: Any, as_inductor: bool, joint: Any, inputs: Any, *, num_fwd_outputs: int, **options: Any
    ) -> tuple[Any, Any]:
        pieces = aot_pieces()
        pieces.joint_graph_passes(joint)
        titles = input_titles(captured, joint)
        knapsacks: list[tuple[Any, ...]] = []
        networks: list[Any] = []
        solver, cutter = (pieces.partitioners, pieces.knapsack), (pieces.cut_module, "minimum_cut")
        with (
            mock.patch.object(*solver, _listening(*solver, knapsacks)),
            mock.patch.object(*cutter, _listening(*cutter, networks)),
        ):
            parts = super().split(captured, False, joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        cut = [network for network, *_ in networks]
        self.changes_input = bool(_updates(joint.graph.output_node()))
        if self.changes_input:
            return parts
        known = graph_of("joint", snapshot(joint), titles, set(), set())
        self.stored = _written(joint.graph, known, cut[:3], knapsacks[0], num_fwd_outputs)
        return parts


def _listening(module: Any, name: str, heard: list[tuple[Any, ...]]) -> Callable[..., Any]:
    function = getattr(module, name)

    def listened(*args: Any, **kwargs: Any) -> Any:
        heard.append(args)
        return function(*args, **kwargs)

    return listened


def _written(
    graph: torch.fx.Graph, known: Graph, networks: list[Any], knapsack: tuple[Any, ...], outputs: int
) -> dict[str, Any]:
    *nodes, end = graph.nodes
    places = {node: at for at, node in enumerate(nodes)}
    lines: dict[tuple[str, int, str], int] = {}
    rows = []
    for node in nodes:
        source = known[node.name].source
        line = (
            -1 if source is None else lines.setdefault((Path(source.file).name, source.line, source.text), len(lines))
        )
        rows.append([*_named(node), line, *_priced(node, networks, places), *_shown(node, known, places)])
    returned = end.args[0]
    inputs = [node for node in nodes if node.op == "placeholder"]
    pairs = zip(returned[outputs:], inputs, strict=False)
    gradients = [
        [places[result], places[of], int(_laid_out_alike(result.meta["val"], of.meta["val"]))]
        for result, of in pairs
        if isinstance(result, torch.fx.Node)
    ]
    _, _, flops, _, _, items = knapsack
    return {
        "torch": torch.__version__.partition("+")[0],
        "lines": [list(line) for line in lines],
        "outputs": [places[node] for node in returned[:outputs]],
        "gradients": gradients,
        "knapsack": [[places[node], int(worth)] for node, worth in zip(items, flops, strict=True)],
        "nodes": rows,
    }


def _named(node: torch.fx.Node) -> tuple[str, str]:
    if node.op == "placeholder":
        return node.name, "tangent" if "tangents" in str(node.target) else "input"
    target = getattr(node.target, "_overloadpacket", node.target)
    return node.name, str(getattr(target, "__name__", target)).removeprefix("aten.")


def _priced(node: torch.fx.Node, networks: list[Any], places: dict[Any, int]) -> tuple[Any, ...]:
    """What it reads, its size, what saving it costs, what the backward needs of it, in which rounds it is banned."""
    enter, leave = f"{node.name}_in", f"{node.name}_out"
    first = networks[0]
    price = first.get_edge_data(enter, leave, {"capacity": None})["capacity"]
    price = None if price is None or price == float("inf") else int(price)
    sink = "in" if first.has_edge(enter, "sink") else "out" if first.has_edge(leave, "sink") else ""
    banned = sum(network.has_edge("source", enter) << turn for turn, network in enumerate(networks))
    size = sum(_nbytes(each) for each in _members(node.meta.get("val")))
    return [places[each] for each in node.all_input_nodes], size, price, sink, banned


def _nbytes(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _shown(node: torch.fx.Node, known: Graph, places: dict[Any, int]) -> tuple[Any, ...]:
    """Of each result: bytes of its own, or whose buffer it shows; which result a getitem takes; is it in place?"""
    title = known[node.name].title if node.op == "placeholder" else ""
    if node.target is operator.getitem:
        return [None], [None], node.args[1], 0, title
    shown = viewed(node) if node.op == "call_function" else {}
    buffers: list[int | None] = []
    shows: list[int | None] = []
    for at, value in enumerate(_members(node.meta.get("val"))):
        source = shown.get(at, shown.get(ALL))
        own = isinstance(value, torch.Tensor) and source is None
        buffers.append(_tensor("", "", "", value).nbytes if own else None)
        shows.append(None if source is None else places[source])
    return buffers, shows, None, int(_writes_in_place(node.target)), title
