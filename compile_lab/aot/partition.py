"""Why is a tensor saved and not computed again? The partitioners of AOTAutograd, run with an ear to the wall.

torch's min-cut partitioner turns the joint graph into a network: a node that must not be computed twice hangs on the
source with a reason written on the edge, what the backward needs hangs on the sink, and each node's width is the price
of saving it. The cheapest cut decides. ``partition`` keeps that network, so the reasons here are torch's own.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from .._torch.aot import aot_pieces, functorch_config

PARTITIONERS = ("min_cut", "default")

WORDS = {
    "an input": "an input: it is there anyway",
    "a parameter": "a parameter: it is there anyway",
    "default partitioner": "made by the forward, read by the backward: this partitioner computes nothing twice",
    "materialized in backward": "the backward would have to write it to memory anyway: what reads it there cannot be "
    "fused with what makes it",
    "reduction op": "a reduction: less than a quarter of what it is computed from",
    "random op": "random: it would come out different the second time",
    "compute intensive op": "too much arithmetic to do twice",
    "non-builtin op": "an operation that torch knows nothing about",
    "marked MUST_SAVE": "marked to be saved, by a checkpoint policy or by the compiler itself",
    "too far from backward": "too many operations lie between it and the backward",
    "used far apart": "what it is computed from is read far apart, with an operation that cannot be fused in between",
    "long fusible chain": "a chain of more than 100 fusible operations is broken here",
    "budget 0": "with a memory budget of 0 the inputs are saved, and nothing else",
}
"""The rules of the partitioner, by torch's own names where it has one, and what they mean."""

ALLOWLIST = "not in recomputable allowlist"
CHEAPEST = "cheapest cut"


@dataclass(frozen=True)
class Cut:
    """What the min-cut partitioner decided on: ``banned`` gives, for the nodes that must not be computed twice, the
    rule that forbids it; ``prices`` the weighted bytes of saving a node. Both are empty for the default partitioner.
    """

    partitioner: str
    banned: dict[str, str] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)

    def needed_by(self, node: torch.fx.Node) -> tuple[torch.fx.Node, ...]:
        """What would have to be saved instead of ``node``: the nearest nodes before it that may not be recomputed."""
        found: dict[torch.fx.Node, None] = {}
        waiting, seen = list(node.all_input_nodes), set()
        while waiting:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            if at.name in self.banned or at.op == "placeholder":
                found[at] = None
            else:
                waiting += at.all_input_nodes
        return tuple(found)

    def rule(self, node: torch.fx.Node) -> str:
        """The rule by which ``node`` is saved, in torch's words where it has any."""
        origin = origin_of(node, self.banned)
        if origin.op == "placeholder":
            return "an input"
        if self.partitioner == "default":
            return "default partitioner"
        return self.banned.get(origin.name, CHEAPEST)


def origin_of(node: torch.fx.Node, banned: dict[str, str]) -> torch.fx.Node:
    """The node that made the data: views and members of a tuple only hand it on."""
    while node.name not in banned and (is_view(node) or getattr(node.target, "__name__", "") == "getitem"):
        node = node.all_input_nodes[0]
    return node


@functools.cache
def _op_types() -> Any:
    return aot_pieces().op_types()


def is_view(node: torch.fx.Node) -> bool:
    """True for an operation that the partitioner takes for a view."""
    return _op_types().is_view(node)


def partition(
    joint: torch.fx.GraphModule, inputs: Any, partitioner: str, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule, Cut]:
    """Split a joint graph with one of torch's partitioners; give the two graphs, and how it decided.

    ``options`` are those that AOTAutograd hands to a partitioner. The joint graph is changed, as torch does.
    """
    networks: list[Any] = []
    module = aot_pieces().cut_module
    solve = module.minimum_cut

    def listened(network: Any, *args: Any, **kwargs: Any) -> Any:
        networks.append(network)
        return solve(network, *args, **kwargs)

    split: Callable[..., Any] = getattr(aot_pieces(), f"{partitioner}_partition")
    with mock.patch.object(module, "minimum_cut", listened), _bans() as bans:
        forward, backward = split(joint, inputs, **options)
    if not networks:
        return forward, backward, Cut(partitioner if partitioner == "default" else "none")
    # A memory budget solves several networks; the last one is what counts.
    return forward, backward, _read(networks[-1], bans, partitioner)


def _read(network: Any, bans: dict[str, str], partitioner: str) -> Cut:
    banned = {
        node.removesuffix("_in"): edge.get("reason", "").removeprefix("cannot recompute").removeprefix(": ")
        for _, node, edge in network.out_edges("source", data=True)
    }
    prices = {
        node.removesuffix("_in"): edge["capacity"]
        for node, after, edge in network.edges(data=True)
        if after.endswith("_out") and after.removesuffix("_out") == node.removesuffix("_in")
    }
    return Cut(partitioner, {node: rule or bans.get(node, "used far apart") for node, rule in banned.items()}, prices)


@contextlib.contextmanager
def _bans() -> Iterator[dict[str, str]]:
    """Two of the rules leave no reason on the edge, only a line in torch's log; here node by node."""
    found: dict[str, str] = {}
    log, handler = aot_pieces().partitioner_log, logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        if str(record.msg).startswith("used above/below fusible"):
            found.setdefault(str(record.args[3]), "used far apart")
        elif str(record.msg).startswith("too long"):
            found[str(record.args[0])] = "long fusible chain"

    handler.emit = emit
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield found
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


def budgeted(memory_budget: float | None) -> contextlib.AbstractContextManager[Any]:
    """The partitioner under a memory budget from 0 to 1; None leaves torch's own setting. ValueError for another."""
    if memory_budget is None:
        return contextlib.nullcontext()
    if not 0 <= memory_budget <= 1:
        raise ValueError(f"memory_budget is {memory_budget!r}: it is a share of what would be saved, from 0 to 1")
    return functorch_config.patch(activation_memory_budget=memory_budget)
