"""Lifetimes read off AOTAutograd's graphs without running them: a value dies with its last reader.

That is how torch runs such graphs (boxed, so that arguments die too). What makes the sum exact: views share the buffer
that they show; what shows a parameter or an input keeps nothing alive; several saved views of one buffer are one buffer
in the backward too; and a gradient that is not laid out as its parameter is copied when it is accumulated.
"""

import functools
import operator
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import torch

from .._torch.dispatcher import is_composite
from ..aot.nodes import Graph
from ..aot.training import TrainingGraphs, returned
from ..source import Line
from ..tensors import number, reach_nbytes, storage_of
from .ledger import BEFORE, Ledger, Lifetimes, Tensor

Keys = tuple[Hashable | None, ...]
"""The buffers of a value: one for a tensor, one for each member of a tuple, None for what is no tensor."""


def graph_lifetimes(graphs: TrainingGraphs) -> Lifetimes:
    """One forward and one backward, run as the two graphs that they were split into, until the gradients are there.

    The outputs are held to the end, as the caller of a loss does; no parameter has a gradient before. Raises ValueError
    for the graphs of a function that broke into several: what one hands to the next is in neither.
    """
    if graphs.others:
        raise ValueError(
            f"this function broke into {len(graphs.each)} graphs, and lifetimes are computed for one: see where in "
            ".breaks, or hand over .each one by one"
        )
    ledger = Ledger()
    forward = _GraphRun(ledger, graphs.forward, Counter())
    forward.take_inputs(graphs.parameters)
    forward.operations()
    saved = forward.leave(graphs.outputs)
    backward = _GraphRun(ledger, graphs.backward, forward.holders)
    backward.take_saved(saved)
    backward.operations()
    backward.gradients(backward.returns, forward.inputs)
    return ledger.lifetimes()


class _GraphRun:
    """One graph, run on nothing but sizes. A buffer is freed when no value that shows it is held any more."""

    def __init__(self, ledger: Ledger, graph: Graph, holders: Counter[Hashable]) -> None:
        self.ledger, self.graph, self.holders = ledger, graph, holders
        self.nodes: list[torch.fx.Node] = list(graph.module.graph.nodes)
        self.inputs = [node for node in self.nodes if node.op == "placeholder"]
        self.returns = returned(graph.module.graph)
        self.values: dict[str, Keys] = {}
        self.tangents: list[Hashable] = []

    def take_inputs(self, parameters: Collection[str]) -> None:
        """Called with parameters and inputs, which somebody else keeps."""
        for node in self.inputs:
            self._resident(node, "parameter" if node.name in parameters else "input")

    def take_saved(self, saved: dict[str, Keys]) -> None:
        """Called with what the forward saved, which nobody else holds, and with tangents."""
        for node in self.inputs:
            if node.name in saved:
                self.values[node.name] = saved[node.name]
            else:
                self._tangent(node)

    def operations(self) -> None:
        """All nodes in order. What has no reader, and what is returned, lives until the graph is left."""
        last = {each.name: at for at, node in enumerate(self.nodes) for each in node.all_input_nodes}
        dying: dict[int, list[str]] = {}
        for name, at in last.items():
            dying.setdefault(at, []).append(name)
        for at, node in enumerate(self.nodes[:-1]):
            if node.op == "get_attr":
                self._resident(node, "input")
            elif node.op != "placeholder":
                self._operation(node)
            for name in dying.get(at, ()):
                self._drop(self.values.pop(name))
        for name in self.values.keys() - _names(self.returns):
            self._drop(self.values.pop(name))

    def leave(self, outputs: int) -> dict[str, Keys]:
        """Return from a forward: the first ``outputs`` results go to the caller, who keeps them; the others are saved.

        Results that are the new contents of an input (a batch norm's statistics) are copied into it, and freed.
        """
        updates = _updates(self.nodes[-1])
        own = _names(result for at, result in enumerate(self.returns[:outputs]) if at not in updates)
        saved = {name: self.values[name] for name in _names(self.returns[outputs:])}
        for keys in [*(self.values[name] for name in own), *saved.values()]:
            self._hold(keys)
        for keys in self.values.values():
            self._drop(keys)
        return saved

    def gradients(self, results: Iterable[Any], inputs: list[torch.fx.Node]) -> None:
        """Give each result to the input whose gradient it is: stolen if nobody else holds it, else copied."""
        pairs = [(r, of) for r, of in zip(results, inputs, strict=False) if isinstance(r, torch.fx.Node)]
        waiting = Counter(result.name for result, _ in pairs)
        for result, of in pairs:
            (key,) = self.values[result.name]
            title = f"{self.ledger.name(self._input(of))}.grad"
            waiting[result.name] -= 1
            shared = waiting[result.name] or key in self.tangents or self.ledger.is_resident(key)
            if not shared and _laid_out_alike(result.meta["val"], of.meta["val"]):
                self.ledger.called(key, "gradient", title)
                continue
            copy = _tensor(title, "AccumulateGrad", "gradient", of.meta["val"])
            self.ledger.operation(title, "AccumulateGrad", "backward", None, {("copy", of.name): copy})
            if not waiting[result.name]:
                self._drop((key,))
        for key in self.tangents:
            self._drop((key,))

    def _operation(self, node: torch.fx.Node) -> None:
        keys, known, values = self._keys(node), self.graph[node.name], _members(_value(node))
        made = {
            key: _tensor(known.name, known.op, "temporary", value, known.source)
            for key, value in zip(keys, values, strict=True)
            if key is not None and key not in self.ledger
        }
        if made or _writes_in_place(node.target):
            # a partitioner may put a node of the backward into the forward: there it runs
            self.ledger.operation(known.name, known.op, self.graph.stage, known.source, made)
        self.values[node.name] = keys
        self._hold(keys)

    def _keys(self, node: torch.fx.Node) -> Keys:
        """The buffers of a node's value: its own, or those of what it is a view of."""
        if node.target is operator.getitem:
            whole, at = node.args
            assert isinstance(whole, torch.fx.Node) and isinstance(at, int)
            value = _value(whole)
            before, here = len(_members(value[:at])), len(_members(value[at]))
            return self.values[whole.name][before : before + here]
        shown = viewed(node)
        keys: list[Hashable | None] = []
        for at, value in enumerate(_members(_value(node))):
            if not isinstance(value, torch.Tensor):
                keys.append(None)
            elif source := shown.get(at, shown.get(ALL)):
                keys.append(self.values[source.name][0])
            else:
                keys.append((self.graph.stage, node.name, at))
        return tuple(keys)

    def _input(self, node: torch.fx.Node) -> Hashable:
        return "input", node.name

    def _resident(self, node: torch.fx.Node, kind: str) -> None:
        value, key = node.meta.get("val"), self._input(node)
        if isinstance(value, torch.Tensor):
            self.ledger.resident(key, _tensor(self.graph[node.name].title or node.name, "input", kind, value))
        self.values[node.name] = (key if isinstance(value, torch.Tensor) else None,)

    def _tangent(self, node: torch.fx.Node) -> None:
        """What a backward begins with, made by the caller of ``backward()`` and held by it until that returns."""
        value, key = node.meta.get("val"), ("tangent", node.name)
        self.values[node.name] = (key if isinstance(value, torch.Tensor) else None,)
        if isinstance(value, torch.Tensor):
            made: dict[Hashable, Tensor] = {key: _tensor(node.name, "aten.ones_like", "temporary", value)}
            self.ledger.operation(node.name, "aten.ones_like", "backward", None, made)
            self.tangents.append(key)
            self._hold((key, key))  # by the caller, and as an argument

    def _hold(self, keys: Keys) -> None:
        self.holders.update(key for key in keys if key is not None)

    def _drop(self, keys: Keys) -> None:
        for key in keys:
            if key is None or self.ledger.is_resident(key):
                continue
            self.holders[key] -= 1
            if not self.holders[key]:
                self.ledger.free(key)


ALL = -1
"""Each member of a list that an operation returns."""


def viewed(node: torch.fx.Node) -> dict[int, torch.fx.Node]:
    """Which of a node's results show the buffer of which argument, by the operation's schema."""
    if not hasattr(node.target, "_schema"):
        return {}
    if is_composite(node.target):  # reshape, contiguous: a view or a copy, as the layout has it
        (value,), source = _members(node.meta["val"])[:1], node.args[0]
        assert isinstance(source, torch.fx.Node)
        same = storage_of(value) == storage_of(source.meta["val"])
        return {0: source} if same else {}
    found = {}
    for at, position, name in _aliases(node.target):
        source = node.args[position] if position < len(node.args) else node.kwargs.get(name)
        if isinstance(source, torch.fx.Node):
            found[at] = source
    return found


@functools.cache
def _aliases(op: Any) -> tuple[tuple[int, int, str], ...]:
    """For each result of an operation that shows an argument: its index, the argument's position and name."""
    if op is torch.ops.aten._unsafe_view.default:  # its schema says that it does not
        return ((0, 0, "self"),)
    arguments = {
        frozenset(argument.alias_info.before_set): (at, argument.name)
        for at, argument in enumerate(op._schema.arguments)
        if argument.alias_info
    }
    found = []
    for at, result in enumerate(op._schema.returns):
        if result.alias_info:
            marks = frozenset(result.alias_info.before_set)  # empty for a list, whose members bear them
            found.append((at, *arguments[marks]) if marks else (ALL, *next(iter(arguments.values()))))
    return tuple(found)


def _writes_in_place(op: Any) -> bool:
    schema = getattr(op, "_schema", None)
    return schema is not None and schema.is_mutable


def _updates(output: torch.fx.Node) -> set[int]:
    """Which results of a forward are the new contents of an input."""
    return {at for at, said in enumerate(output.meta.get("desc") or ()) if "InputMutation" in type(said).__name__}


def _names(results: Iterable[Any]) -> set[str]:
    return {result.name for result in results if isinstance(result, torch.fx.Node)}


def _value(node: torch.fx.Node) -> Any:
    """A node's value; of one that the partitioner made and gave none (dropout that is run again), its members' own."""
    if "val" in node.meta or not (members := [each for each in node.users if each.target is operator.getitem]):
        return node.meta.get("val")
    known = {at: _value(each) for each in members if isinstance(at := each.args[1], int)}
    return tuple(known.get(at) for at in range(max(known) + 1))


def _members(value: Any) -> list[Any]:
    """What a node's value is made of: one that keeps a state of the random numbers returns it beside a tuple."""
    return [part for each in value for part in _members(each)] if isinstance(value, list | tuple) else [value]


def _tensor(name: str, op: str, kind: str, value: torch.Tensor, source: Line | None = None) -> Tensor:
    shape, strides = [number(size) for size in value.shape], [number(stride) for stride in value.stride()]
    nbytes = reach_nbytes(shape, strides, value.element_size())
    dtype = str(value.dtype).removeprefix("torch.")
    return Tensor(name, op, kind, tuple(shape), dtype, nbytes, BEFORE, BEFORE, source)


def _laid_out_alike(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    """autograd's contract for a gradient that it keeps: strides are the parameter's, if that has no gaps."""
    strides = [
        [number(stride) for size, stride in zip(each.shape, each.stride(), strict=True) if number(size) > 1]
        for each in (gradient, parameter)
    ]
    return strides[0] == strides[1]
