"""What did a pass do to a graph? ``pictured(graph)`` before and after, and ``differences`` between the two.

Nodes are told apart by their names, which a graph keeps while it is changed: a node is removed, added, or reads
something else than before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map_only

from compile_lab._torch.passes import detect_fake_mode
from compile_lab.aot.nodes import op_of, source_of
from compile_lab.source import Line
from compile_lab.tensors import number


@dataclass(frozen=True)
class PictureNode:
    """One node of a graph, as it was when the picture was taken."""

    name: str
    op: str
    """The operation with its overload, or input, constant, output."""
    arguments: str
    """As in Python: ``add_2, 1e-05``, with the names of nodes."""
    inputs: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...] | None
    """None for what is not one tensor, or where torch has not noted it."""
    line: Line | None
    """The reader's line that it came from, or whose gradient it computes."""

    def __str__(self) -> str:
        shown = f": {self.dtype}{list(self.shape)}" if self.shape is not None else ""
        return f"{self.name}{shown} = {self.op}({self.arguments})"


@dataclass(frozen=True)
class NodeChange:
    """A node that is ``removed``, ``added`` or ``changed``; what it was, and what it is."""

    kind: str
    before: PictureNode | None
    after: PictureNode | None

    @property
    def node(self) -> PictureNode:
        """The node as it is, or as it was if it is gone."""
        node = self.after or self.before
        assert node is not None
        return node

    def __str__(self) -> str:
        sign = {"removed": "-", "added": "+", "changed": "~"}[self.kind]
        was = f"   was ({self.before.arguments})" if self.before and self.after else ""
        return f"{sign} {self.node}{was}"


def pictured(graph: fx.Graph) -> tuple[PictureNode, ...]:
    """The nodes of a graph, in order, as plain values that stay when the graph is changed."""
    return tuple(_pictured(node) for node in graph.nodes)


def _pictured(node: fx.Node) -> PictureNode:
    value = node.meta.get("val", node.meta.get("example_value"))
    shape, dtype = None, ""
    if isinstance(value, torch.Tensor):
        shape, dtype = tuple(map(number, value.shape)), str(value.dtype).removeprefix("torch.")
    given = [*map(_text, node.args), *(f"{name}={_text(each)}" for name, each in node.kwargs.items())]
    read = tuple(each.name for each in node.all_input_nodes)
    op = str(node.target) if hasattr(node.target, "overloadpacket") else op_of(node)
    return PictureNode(node.name, op, ", ".join(given), read, dtype, shape, source_of(node))


def _text(value: Any) -> str:
    return repr(tree_map_only(fx.Node, _Named, value))


class _Named:
    def __init__(self, node: fx.Node) -> None:
        self.name = node.name

    def __repr__(self) -> str:
        return self.name


def differences(before: Sequence[PictureNode], after: Sequence[PictureNode]) -> tuple[NodeChange, ...]:
    """What is removed, added and changed, in the order of the graphs: what is gone stands where it stood."""
    old, new = ({node.name: node for node in nodes} for nodes in (before, after))
    return tuple(_differences(before, after, old, new))


def _differences(
    before: Iterable[PictureNode],
    after: Sequence[PictureNode],
    old: dict[str, PictureNode],
    new: dict[str, PictureNode],
) -> Iterator[NodeChange]:
    gone: dict[str | None, list[PictureNode]] = {}
    last: str | None = None
    for node in before:
        if node.name in new:
            last = node.name
        else:
            gone.setdefault(last, []).append(node)
    yield from (NodeChange("removed", node, None) for node in gone.get(None, ()))
    for node in after:
        was = old.get(node.name)
        if was is None:
            yield NodeChange("added", None, node)
        elif (was.op, was.arguments) != (node.op, node.arguments):
            yield NodeChange("changed", was, node)
        yield from (NodeChange("removed", each, None) for each in gone.get(node.name, ()))


def moved(before: Sequence[PictureNode], after: Sequence[PictureNode]) -> bool:
    """True if nodes that are in both graphs stand in another order."""
    both = {node.name for node in before} & {node.name for node in after}
    first, second = ([node.name for node in nodes if node.name in both] for nodes in (before, after))
    return first != second


ResultKinds = tuple[tuple[tuple[int, ...], str] | None, ...]
"""Shape and dtype of each result of a graph; None for what is no tensor, or is not noted."""


def result_kinds(graph: fx.Graph) -> ResultKinds:
    """What the graph returns, as torch has noted it."""
    return tuple(_kind(each.meta.get("val")) if isinstance(each, fx.Node) else None for each in _results(graph))


def broken(graph: fx.Graph, before: Sequence[PictureNode], results: ResultKinds) -> str | None:
    """What makes a graph one that cannot be run, or that no longer gives what it gave; None for a sound one.

    ``before`` and ``results`` are its nodes and its ``result_kinds`` before the pass.
    Nodes of aten operations without a value are given one, as torch needs it further on: it is computed on tensors
    without data.
    """
    try:
        graph.lint()
    except (AssertionError, RuntimeError) as reason:
        return f"it is no graph any more: {str(reason).strip().splitlines()[0]}"
    inputs = [node.name for node in before if node.op == "input"]
    if [node.name for node in graph.nodes if node.op == "placeholder"] != inputs:
        return "its inputs are others than before, and a pass may not change them"
    if not any("val" in node.meta for node in graph.nodes):
        return None  # before the gradients are traced, torch notes no values here
    try:
        values = _computed(graph, {node.name: node for node in before})
    except (RuntimeError, TypeError, ValueError, IndexError) as reason:
        return f"a node of it cannot be computed: {str(reason).strip().splitlines()[0]}"
    return _other_results(graph, values, results)


def _computed(graph: fx.Graph, old: dict[str, PictureNode]) -> dict[fx.Node, Any]:
    """The values of all nodes: torch's own where nothing changed, computed without data behind what did."""
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    values: dict[fx.Node, Any] = {}
    fresh: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "output":
            break
        was = old.get(node.name)
        same = was is not None and was.arguments == _pictured(node).arguments and not fresh & {*node.all_input_nodes}
        if node.op != "call_function" or (same and "val" in node.meta):
            values[node] = node.meta.get("val")
            continue
        fresh.add(node)
        args, kwargs = tree_map_only(fx.Node, values.__getitem__, (node.args, node.kwargs))
        with mode if mode is not None else torch.no_grad():
            values[node] = node.target(*args, **kwargs)
        if was is None:
            node.meta.setdefault("val", values[node])
    return values


def _other_results(graph: fx.Graph, values: dict[fx.Node, Any], before: ResultKinds) -> str | None:
    results = _results(graph)
    if len(results) != len(before):
        return f"it returned {len(before)} results and now returns {len(results)}"
    for at, (result, was) in enumerate(zip(results, before, strict=True)):
        now = _kind(values.get(result)) if isinstance(result, fx.Node) else None
        if was is not None and was != now:
            is_now = f"{now[1]}{list(now[0])}" if now else "no tensor"
            return f"its result {at} was {was[1]}{list(was[0])} and is now {is_now}"
    return None


def _results(graph: fx.Graph) -> tuple[Any, ...]:
    results = graph.output_node().args[0]
    return tuple(results) if isinstance(results, list | tuple) else (results,)


def _kind(value: Any) -> tuple[tuple[int, ...], str] | None:
    if not isinstance(value, torch.Tensor):
        return None
    return tuple(map(number, value.shape)), str(value.dtype).removeprefix("torch.")
