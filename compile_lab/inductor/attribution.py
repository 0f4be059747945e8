"""Which operation wrote this line of a generated kernel? Inductor does not say, so it is listened to while it writes.

A group's loop body is recorded by calling the loaders of the operations inside it, one within the other, and is then
played back, each step giving a variable (``tmp7``) of the kernel. The operation whose loader is being called when a
step is recorded is the one that asked for it: the step keeps that, and so does the variable.
"""

import contextlib
import functools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from .._torch.inductor import inductor_lowering

_REQUESTED_BY = "compile_lab_asked_by"
_ASSIGNED = re.compile(r"\s*_?(tmp\d+)(?:_\w+)? = ")
_STORED = re.compile(r"\s*tl\.(?:store|atomic_add)\(.*?, (tmp\d+),")


@dataclass
class Variables:
    """The variables written since the last ``take``, each with the graph nodes it belongs to."""

    exact: dict[str, str] = field(default_factory=dict)
    loop_nest: dict[str, tuple[str, set[str]]] = field(default_factory=dict)
    """Of each variable the loop nest it was written in, and all nodes of that."""

    def take(self, order: Mapping[str, int]) -> dict[str, str]:
        """Name to node; ``order`` says where each node of the graph stands. Where no loader was at work (a reduction's
        own steps), it is the last node of the loop nest that claims no variable in it: the one the loop was made for.
        """
        claimed = defaultdict(set)
        for name, node in self.exact.items():
            claimed[self.loop_nest[name][0]].add(node)
        owners = {}
        for name, (nest, nodes) in self.loop_nest.items():
            if known := [node for node in (nodes - claimed[nest]) or nodes if node in order]:
                owners[name] = max(known, key=order.__getitem__)
        owners |= self.exact
        self.exact.clear()
        self.loop_nest.clear()
        return owners


@contextlib.contextmanager
def listening() -> Iterator[Variables]:
    """Keep, for every variable that Inductor writes inside the block, the nodes that it computes."""
    torch_ = inductor_lowering()
    variables, asking = Variables(), []
    loader, reduction = torch_.Pointwise.make_loader, torch_.Reduction.store_reduction
    create, new = torch_.LoopTracer.create_node, torch_.CSE.newvar

    def on_behalf_of(loops: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            asking.append(_name(getattr(loops, "origin_node", None)))
            try:
                return call(*args, **kwargs)
            finally:
                asking.pop()

        return called

    def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
        step = create(tracer, *args, **kwargs)
        # A body that is recorded once more, with its loops merged, is played back meanwhile.
        step.meta[_REQUESTED_BY] = asking[-1] if asking else _played(torch_.V)
        return step

    def newvar(cse: Any, *args: Any, **kwargs: Any) -> Any:
        variable = new(cse, *args, **kwargs)
        variables.exact.pop(str(variable), None)
        variables.loop_nest[str(variable)] = _scheduled(torch_.V)
        if node := _played(torch_.V):
            variables.exact[str(variable)] = node
        return variable

    patch = mock.patch.object
    with (
        patch(torch_.Pointwise, "make_loader", lambda self: on_behalf_of(self, loader(self))),
        patch(torch_.Reduction, "store_reduction", lambda self, *a: on_behalf_of(self, reduction)(self, *a)),
        patch(torch_.LoopTracer, "create_node", create_node),
        patch(torch_.CSE, "newvar", newvar),
    ):
        yield variables


def _played(virtualized: Any) -> str | None:
    """The node that asked for the step which is being played back."""
    step = getattr(virtualized.interpreter, "current_node", None)
    return step.meta.get(_REQUESTED_BY) if step is not None else None


def _name(node: Any) -> str | None:
    """The node's name; of an item of a tuple, the name of the operation that gave the tuple."""
    if node is not None and node.target is operator.getitem:
        node = node.args[0]
    return node.name if node is not None else None


def _scheduled(virtualized: Any) -> tuple[str, set[str]]:
    """The loop nest that is being written, and all its nodes but views, which compute nothing."""
    scheduled: Any = getattr(virtualized.kernel, "current_node", None)
    computed = getattr(scheduled, "node", None)
    if computed is None:
        return "", set()
    origins = list(computed.get_origins())
    computing = {node.name for node in origins if not is_view(node)}
    return scheduled.get_name(), computing or {node.name for node in origins}


def is_view(node: Any) -> bool:
    """True for a node that only shows its input in another shape, or takes an item of a tuple."""
    return node.target is operator.getitem or _aliases(node.target)


@functools.cache
def _aliases(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and any(given.alias_info is not None for given in schema.returns)


def by_line(body: str, variables: dict[str, str]) -> tuple[str, ...]:
    """For each line of a Triton kernel the node of the variable that it sets or stores, or ""."""
    matches = ((_ASSIGNED.match(line) or _STORED.match(line)) for line in body.split("\n"))
    return tuple(variables.get(match[1], "") if match else "" for match in matches)
