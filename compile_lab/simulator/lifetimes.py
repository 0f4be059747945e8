"""A training step under a memory budget: its two graphs, and the life of each of their tensors.

What ``memory.lifetimes`` reads off torch's graphs, in plain Python on a stored one, at any budget.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..doors import door
from .budget import saved
from .joint_graphs import StoredGraph


@dataclass(frozen=True)
class Halves:
    """The nodes of the forward and of the backward graph, each in the order in which it runs."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    saved: tuple[int, ...]
    """What the one hands to the other: nodes that the backward reads, and tangents are not among them."""

    @property
    def again(self) -> tuple[int, ...]:
        """What runs in both."""
        both = set(self.forward)
        return tuple(at for at in self.backward if at in both)


def halves(graph: StoredGraph, kept: Sequence[int]) -> Halves:
    """The joint graph split where ``kept`` is saved, dead code left out, the backward ordered as torch orders it."""
    tangents = [at for at, node in enumerate(graph.nodes) if node.op == "tangent"]
    results = [result for result, _, _ in graph.gradients]
    behind = _needed(graph, results, {*kept, *tangents})
    read = {given for at in behind for given in graph.nodes[at].reads} | set(results)
    used = tuple(at for at in kept if at in read)
    forward = _needed(graph, [*graph.outputs, *used], set(graph.inputs))
    users = [at for at in behind if any(graph.nodes[given].op == "tangent" for given in graph.nodes[at].reads)]
    ordered = _as_needed(graph, behind, min(users)) if users else behind
    return Halves(_getitems_first(graph, forward), _getitems_first(graph, ordered), used)


def _needed(graph: StoredGraph, wanted: Iterable[int], given: set[int]) -> list[int]:
    """What has to run to have ``wanted`` from ``given``, in the graph's order."""
    found: set[int] = set()
    waiting = list(wanted)
    while waiting:
        at = waiting.pop()
        if at not in found and at not in given:
            found.add(at)
            waiting += graph.nodes[at].reads
    return sorted(found)


def _as_needed(graph: StoredGraph, nodes: list[int], first: int) -> list[int]:
    """From the backward's first own node on; what is made again comes right before what reads it."""
    runs, done = set(nodes), {}
    for node in (at for at in nodes if at >= first):
        due: set[int] = set()
        waiting = [node]
        while waiting:
            at = waiting.pop()
            if at in runs and at not in due and at not in done:
                due.add(at)
                waiting += graph.nodes[at].reads
        done.update(dict.fromkeys(sorted(due)))
    return list(done)


def _getitems_first(graph: StoredGraph, nodes: Iterable[int]) -> tuple[int, ...]:
    """Right behind what they take from."""
    nodes = list(nodes)
    runs = set(nodes)
    taking: dict[int, list[int]] = {}
    for at in nodes:
        if graph.nodes[at].member is not None and graph.nodes[at].reads[0] in runs:
            taking.setdefault(graph.nodes[at].reads[0], []).append(at)
    moved = {at for members in taking.values() for at in members}
    return tuple(each for at in nodes if at not in moved for each in (at, *taking.get(at, ())))


# ---- the lives -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Life:
    """One piece of memory: the first and the last operation during which it is alive, as places in `live`."""

    node: int
    name: str
    kind: str
    """activation, gradient, recomputed (a forward's result that the backward makes again) or temporary."""
    nbytes: int
    birth: int
    death: int
    """As long as that for what outlives the step."""


@dataclass(frozen=True)
class LivedStep:
    """One training step under a budget. All bytes are above parameters and inputs, which were there before."""

    graph: StoredGraph = field(repr=False)
    budget: float
    split: Halves = field(repr=False)
    buffers: tuple[Life, ...] = field(repr=False)
    operations: tuple[str, ...] = field(repr=False)
    live: tuple[int, ...] = field(repr=False)
    """Bytes alive while each operation runs."""
    forward: int
    """How many operations the forward has."""
    held_nbytes: int
    """Alive between the passes."""

    @functools.cached_property
    def peak_at(self) -> int:
        """The operation at which most is alive, the first of several."""
        return max(range(len(self.live)), key=self.live.__getitem__)

    @property
    def peak_nbytes(self) -> int:
        return self.live[self.peak_at]

    @property
    def again(self) -> int:
        """How many operations run a second time; views and members of tuples are none."""
        nodes = (self.graph.nodes[at] for at in self.split.again)
        return sum(any(size is not None for size in node.buffers) for node in nodes)

    @property
    def flops_again(self) -> int:
        """Arithmetic of those."""
        return sum(self.graph.flops.get(at, 0) for at in self.split.again)

    def alive(self, at: int) -> tuple[Life, ...]:
        """The buffers alive while operation ``at`` runs, largest first."""
        return tuple(sorted((b for b in self.buffers if b.birth <= at <= b.death), key=lambda b: -b.nbytes))


@door
def lived(graph: StoredGraph, budget: float) -> LivedStep:
    """The step of a stored graph under a memory budget from 0 to 1: its buffers, from birth to death.

    A value dies with its last reader; views share a buffer; a gradient that lies otherwise than its parameter is copied
    into ``.grad``. Raises ValueError for a budget out of range.

    >>> from compile_lab.simulator.joint_graphs import stored_graphs
    >>> from compile_lab.simulator.lifetimes import lived
    >>> steps = [lived(stored_graphs()["MiniGPT, one layer"], budget) for budget in (0.5, 1)]
    >>> [(step.held_nbytes, step.again) for step in steps]
    [(1490948, 50), (3625480, 15)]
    """
    split = halves(graph, saved(graph, budget))
    run = _Run(graph)
    run.half(split.forward, "forward", (*graph.outputs, *split.saved))
    forward, held = len(run.live), run.now
    run.hold(at for at in graph.outputs if at in split.saved)  # by the caller, too
    for at, node in enumerate(graph.nodes):
        if node.op == "tangent":
            run.tangent(at)
    made = set(split.forward)
    run.half(split.backward, "backward", [result for result, _, _ in graph.gradients], made)
    run.gradients()
    buffers = []
    for node, name, kind, nbytes, birth, death in run.finished():
        if kind == "temporary" and birth < forward <= death < len(run.live):
            kind = "activation"
        buffers.append(Life(node, name, kind, nbytes, birth, death))
    buffers.sort(key=lambda each: each.birth)
    return LivedStep(graph, budget, split, tuple(buffers), tuple(run.operations), tuple(run.live), forward, held)


Key = tuple[str, int, int]


class _Run:
    """Two graphs, run on nothing but sizes: a buffer is freed when no value that shows it is held any more."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph, self.now = graph, 0
        self.values: dict[int, tuple[Key | None, ...]] = dict.fromkeys(graph.inputs, (None,))
        self.holders: Counter[Key] = Counter()
        self.known: dict[Key, list[Any]] = {}
        self.live: list[int] = []
        self.operations: list[str] = []
        self.dead: list[list[Any]] = []
        self.tangents: list[Key] = []

    def half(self, nodes: Sequence[int], stage: str, returned: Sequence[int], made: Iterable[int] = ()) -> None:
        """One graph. What it returns stays, once for each value; everything else that it was given or made goes."""
        again = set(made)
        inputs = set(self.graph.inputs)
        last = {given: at for at in nodes for given in self.graph.nodes[at].reads if given not in inputs}
        dying: dict[int, list[int]] = {}
        own = set(nodes)
        for given, at in last.items():
            dying.setdefault(at, []).append(given)
        kept = set(returned)
        for at in nodes:
            self.operation(at, stage, "recomputed" if at in again else "temporary")
            for given in dying.get(at, ()):
                if given not in kept:
                    self.drop(self.values.pop(given))
        for at in own - kept:
            if at in self.values:
                self.drop(self.values.pop(at))

    def operation(self, at: int, stage: str, kind: str) -> None:
        node = self.graph.nodes[at]
        keys = self.keys(at, stage)
        new = (key for key in keys if key is not None and key not in self.known)
        made = {key: nbytes for key in new if (nbytes := node.buffers[key[2]]) is not None}
        if made or node.in_place:
            self.begin(node.name)
            for key, nbytes in made.items():
                self.born(key, node.name, kind, nbytes)
            self.live[-1] = self.now
        self.values[at] = keys
        self.hold([at])

    def hold(self, nodes: Iterable[int]) -> None:
        self.holders.update(key for at in nodes for key in self.values[at] if key is not None)

    def keys(self, at: int, stage: str) -> tuple[Key | None, ...]:
        node = self.graph.nodes[at]
        if node.member is not None:
            return (self.values[node.reads[0]][node.member],)
        shown = (None if of is None else self.values[of][0] for of in node.shows)
        return tuple(
            (stage, at, member) if nbytes is not None else key
            for member, (nbytes, key) in enumerate(zip(node.buffers, shown, strict=True))
        )

    def tangent(self, at: int) -> None:
        """What the backward begins with: held by the caller of ``backward()``, and as an argument."""
        key = ("tangent", at, 0)
        self.begin(self.graph.nodes[at].name)
        self.born(key, self.graph.nodes[at].name, "temporary", self.graph.nodes[at].buffers[0] or 0)
        self.live[-1] = self.now
        self.values[at] = (key,)
        self.holders[key] += 2
        self.tangents.append(key)

    def gradients(self) -> None:
        """Each result becomes ``.grad`` if nobody else holds it and it lies as its parameter; else it is copied."""
        waiting = Counter(result for result, _, _ in self.graph.gradients)
        for result, of, alike in self.graph.gradients:
            (key,) = self.values[result]
            waiting[result] -= 1
            title = f"{self.graph.nodes[of].title}.grad"
            if key is not None and alike and not waiting[result] and key not in self.tangents:
                self.known[key][1:3] = title, "gradient"
                continue
            self.begin(title)
            self.born(("copy", of, 0), title, "gradient", self.graph.nodes[of].buffers[0] or 0)
            self.live[-1] = self.now
            if not waiting[result]:
                self.drop((key,))
        for key in self.tangents:
            self.drop((key,))

    def begin(self, name: str) -> None:
        self.operations.append(name)
        self.live.append(self.now)

    def born(self, key: Key, name: str, kind: str, nbytes: int) -> None:
        self.known[key] = [key[1], name, kind, nbytes, len(self.live) - 1]
        self.now += nbytes

    def drop(self, keys: Iterable[Key | None]) -> None:
        for key in keys:
            if key is None:
                continue
            self.holders[key] -= 1
            if not self.holders[key]:
                buffer = self.known.pop(key)
                self.now -= buffer[3]
                self.dead.append([*buffer, len(self.live) - 1])

    def finished(self) -> Iterator[list[Any]]:
        yield from self.dead
        for buffer in self.known.values():
            yield [*buffer, len(self.live)]
