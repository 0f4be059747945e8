"""Why is a tensor saved and not computed again? The partitioners of AOTAutograd, run with an ear to the wall.

torch's min-cut partitioner turns the joint graph into a network: a node that must not be computed twice hangs on the
source with a reason written on the edge, what the backward needs hangs on the sink, and each node's width is the price
of saving it. The cheapest cut decides. ``partition`` keeps that network, so the reasons here are torch's own.
"""

import contextlib
import functools
import logging
from collections import defaultdict
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
    "materialized in backward": "recomputed in the backward, it would be written to memory all the same, since the "
    "operation that reads it cannot be fused with the one that makes it",
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
class Pipe:
    """A tensor in the partitioner's network: to save it costs ``capacity``, and the cheapest cut is what is saved."""

    name: str
    capacity: float
    banned: str
    """The rule by which it hangs on the source, as it must not be computed twice; empty if it may be."""
    after: tuple[str, ...]
    """The tensors that are computed from it."""
    needed: tuple[str, ...]
    """The operations of the backward that read it, each of which hangs on the sink."""
    side: str
    """``source``: computed by the forward alone; ``cut``: saved; ``sink``: computed in the backward."""


@dataclass(frozen=True)
class Cut:
    """What the min-cut partitioner decided on: ``banned`` gives, for the nodes that must not be computed twice, the
    rule that forbids it. Empty for the default partitioner.
    """

    partitioner: str
    banned: dict[str, str] = field(default_factory=dict)
    network: tuple[Pipe, ...] = ()
    """What can be saved of all that the backward reads, or that it is computed from."""

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
    networks: list[tuple[Any, Any]] = []
    module = aot_pieces().cut_module
    solve = module.minimum_cut

    def listened(network: Any, *args: Any, **kwargs: Any) -> Any:
        solved = solve(network, *args, **kwargs)
        networks.append((network, solved[1]))
        return solved

    split: Callable[..., Any] = getattr(aot_pieces(), f"{partitioner}_partition")
    with mock.patch.object(module, "minimum_cut", listened), _bans() as bans:
        forward, backward = split(joint, inputs, **options)
    if not networks:
        return forward, backward, Cut(partitioner if partitioner == "default" else "none")
    # A memory budget solves several networks; the last one is what counts.
    network, (before, _) = networks[-1]
    return forward, backward, _read(network, before, bans, partitioner)


def _read(network: Any, before: set[str], bans: dict[str, str], partitioner: str) -> Cut:
    banned = {
        node.removesuffix("_in"): edge.get("reason", "").removeprefix("cannot recompute").removeprefix(": ")
        for _, node, edge in network.out_edges("source", data=True)
    }
    prices = {
        node.removesuffix("_in"): edge["capacity"]
        for node, after, edge in network.edges(data=True)
        if after.endswith("_out") and after.removesuffix("_out") == node.removesuffix("_in")
    }
    banned = {node: rule or bans.get(node, "used far apart") for node, rule in banned.items()}
    return Cut(partitioner, banned, _pipes(network, before, banned, prices))


def _pipes(network: Any, before: set[str], banned: dict[str, str], prices: dict[str, float]) -> tuple[Pipe, ...]:
    """The nodes through which anything flows from the source to the sink; ``before``: what lies before the cut."""
    sunk = {each for each, end in network.edges() if end == "sink"}
    after = {name: [each.removesuffix("_in") for each in network[f"{name}_out"] if each != "sink"] for name in prices}
    needed = {name: tuple(each for each in following if f"{each}_in" in sunk) for name, following in after.items()}
    above: dict[str, list[str]] = defaultdict(list)
    for name, following in after.items():
        for each in following:
            above[each].append(name)
    fed = _reached([name for name in prices if name in banned], after)
    drained = _reached([name for name in prices if needed[name] or f"{name}_out" in sunk], above)
    both = fed & drained
    sides = {(True, True): "source", (True, False): "cut"}
    return tuple(
        Pipe(
            name,
            prices[name],
            banned.get(name, ""),
            tuple(each for each in after[name] if each in both),
            needed[name],
            sides.get((f"{name}_in" in before, f"{name}_out" in before), "sink"),
        )
        for name in prices
        if name in both
    )


def _reached(starts: list[str], following: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    while starts:
        if (name := starts.pop()) not in found:
            found.add(name)
            starts += following.get(name, [])
    return found


@contextlib.contextmanager
def _bans() -> Iterator[dict[str, str]]:
    """Two of the rules leave no reason on the edge, only a line in torch's log; here node by node."""
    found: dict[str, str] = {}
    log, handler = aot_pieces().partitioner_log, logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        if str(record.msg).startswith("used above/below fusible"):
            found.setdefault(str(args[3]), "used far apart")
        elif str(record.msg).startswith("too long"):
            found[str(args[0])] = "long fusible chain"

    handler.emit = emit  # type: ignore[method-assign]  # of this one handler
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
