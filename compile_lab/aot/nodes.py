"""The nodes of AOTAutograd's graphs with what torch noted on them: the line, the module and the call they came from.

torch notes a Python stack on each forward node and, through autograd's sequence numbers, on the backward nodes that
belong to it. So a backward node carries the line of the forward operation whose gradient it computes.
"""

import functools
import re
from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import tree_map_only

from ..dynamo.tracing import readable
from ..eager.flops import flops_of
from ..source import Line, stack
from ..tensors import nbytes, number
from .partition import is_view


@dataclass(frozen=True)
class Node:
    """One node of a joint, forward or backward graph."""

    name: str
    op: str
    """The operation without its overload: ``aten.mm``; or ``input``, ``constant``, ``output``."""
    stage: str
    """The graph it stands in: joint, forward or backward."""
    direction: str
    """Where it was traced: forward or backward. A forward node in the backward graph is recomputed or saved."""
    shape: tuple[int, ...] | None
    """None for what is not one tensor."""
    dtype: str
    nbytes: int
    """Bytes of its elements; for a view, of what it shows."""
    source: Line | None
    """The user's line; for a backward node, the forward line whose gradient it computes."""
    module: str
    """The module it belongs to: ``blocks.0.mlp``; empty outside of modules."""
    called: str
    """The call in the captured graph it came from, or whose gradient it computes: ``layer_norm_1``."""
    inputs: tuple[str, ...]
    """Names of the nodes that it reads."""
    saved: bool
    recomputed: bool
    title: str = ""
    """Of an input: what the user calls it, ``blocks.0.mlp.up.weight``."""

    @property
    def is_op(self) -> bool:
        """True for an operation, false for inputs, constants and the output."""
        return self.op not in ("input", "constant", "output")

    def __str__(self) -> str:
        at = f"  # {self.source}" if self.source else ""
        return f"{self.name}: {self.dtype}{list(self.shape or ())} = {self.op}({', '.join(self.inputs)}){at}"


@dataclass(frozen=True)
class Graph:
    """One graph: its nodes in order, and the same as readable Python."""

    stage: str
    nodes: tuple[Node, ...] = field(repr=False)
    code: str = field(repr=False)
    module: torch.fx.GraphModule = field(repr=False, compare=False)

    @property
    def ops(self) -> int:
        """How many operations it has."""
        return sum(node.is_op for node in self.nodes)

    def __getitem__(self, name: str) -> Node:
        """The node of that name; KeyError if there is none."""
        if name not in self._by_name:
            raise KeyError(f"the {self.stage} graph has no node {name!r}")
        return self._by_name[name]

    @functools.cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def __str__(self) -> str:
        return self.code


@dataclass(frozen=True)
class Decomposition:
    """One call that Dynamo captured, and the operations that it became."""

    name: str
    """The node in Dynamo's graph."""
    call: str
    """What was called: ``layer_norm``, ``view``."""
    source: Line | None
    forward: tuple[str, ...]
    backward: tuple[str, ...]


def graph_of(
    stage: str, module: torch.fx.GraphModule, titles: dict[str, str], saved: set[str], recomputed: set[str]
) -> Graph:
    """A graph with typed nodes. ``titles`` names inputs; ``saved`` and ``recomputed`` are names of nodes."""
    nodes = tuple(
        _node(node, stage, titles.get(node.name, ""), node.name in saved, node.name in recomputed)
        for node in module.graph.nodes
    )
    return Graph(stage, nodes, readable(module.print_readable(print_output=False)), module)


def _node(node: torch.fx.Node, stage: str, title: str, saved: bool, recomputed: bool) -> Node:
    value, meta = node.meta.get("val"), node.meta
    shape, dtype = None, ""
    if isinstance(value, torch.Tensor):
        shape, dtype = tuple(map(number, value.shape)), str(value.dtype).removeprefix("torch.")
    calls = meta.get("source_fn_stack") or meta.get("fwd_source_fn_stack") or ()
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return Node(
        name=node.name,
        op=op_of(node),
        stage=stage,
        direction=_direction(node, stage),
        shape=shape,
        dtype=dtype,
        nbytes=nbytes(value),
        source=source_of(node),
        module=_title([path for path, _ in modules.values()][-1]) if modules else "",
        called=calls[-1][0] if calls else "",
        inputs=tuple(each.name for each in node.all_input_nodes),
        saved=saved,
        recomputed=recomputed,
        title=title,
    )


def op_of(node: torch.fx.Node) -> str:
    """The operation's name without its overload."""
    if node.op in ("placeholder", "get_attr", "output"):
        return {"placeholder": "input", "get_attr": "constant"}.get(node.op, node.op)
    if packet := getattr(node.target, "overloadpacket", None):
        return str(packet)
    return getattr(node.target, "__name__", str(node.target))


def _direction(node: torch.fx.Node, stage: str) -> str:
    tag = node.meta.get("partitioner_tag", "")
    if node.op == "output" or not tag:
        return "backward" if stage == "backward" or node.name.startswith("tangents") else "forward"
    return "backward" if tag == "is_backward" else "forward"


def source_of(node: torch.fx.Node) -> Line | None:
    """The innermost line on the node's stack that is the user's: not Python's own, nor torch's."""
    lines = stack(node.meta.get("stack_trace") or "")
    return next((line for line in reversed(lines) if line.is_users), lines[-1] if lines else None)


def input_titles(captured: torch.fx.GraphModule, joint: torch.fx.GraphModule) -> dict[str, str]:
    """What the user calls each input of the joint graph: its parameter's path or its argument's name."""
    names = [_title(_source_name(node)) for node in captured.graph.find_nodes(op="placeholder")]
    titles = {}
    for node in joint.graph.find_nodes(op="placeholder"):
        at = getattr(node.meta.get("desc"), "idx", None)
        if node.name.startswith("primals") and at is not None and at < len(names):
            titles[node.name] = names[at]
    return titles


def _source_name(node: torch.fx.Node) -> str:
    name = getattr(getattr(node, "_dynamo_source", None), "name", None)  # a method up to 2.11, then a property
    return (name() if callable(name) else name) or str(node.target)


def _title(source: str) -> str:
    """Dynamo's way to say where a value is, as the user would: ``blocks.0.norm1.weight``."""
    source = re.sub(r"\._(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", source)
    source = re.sub(r"^[LG]\['(\w+)'\]", r"\1", source)
    return re.sub(r"^(self|fn)\.", "", source)  # fn: where torch wraps a module of its own


def decomposed(captured: torch.fx.GraphModule, joint: torch.fx.GraphModule) -> tuple[Decomposition, ...]:
    """For each call in the captured graph, the operations of the joint graph that torch ties to it."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"forward": [], "backward": []})
    for node in joint.graph.nodes:
        calls = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack")
        if calls and node.op == "call_function" and op_of(node) != "getitem":
            found[calls[-1][0]][_direction(node, "joint")].append(op_of(node))
    table = []
    for node in captured.graph.nodes:
        if node.op.startswith("call") and node.meta.get("source_fn_stack"):
            parts = found[node.meta["source_fn_stack"][-1][0]]
            call = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
            table.append(
                Decomposition(node.name, call, source_of(node), tuple(parts["forward"]), tuple(parts["backward"]))
            )
    return tuple(table)


def node_flops(node: torch.fx.Node) -> int:
    """The same for a node of a graph of aten operations."""
    args, kwargs = tree_map_only(torch.fx.Node, lambda each: each.meta.get("val"), (node.args, node.kwargs))
    return flops_of(node.target, args, kwargs, node.meta.get("val"))


def is_work(node: torch.fx.Node) -> bool:
    """True for an operation that computes: no view, and no member taken out of a tuple."""
    return node.op == "call_function" and hasattr(node.target, "overloadpacket") and not is_view(node)
