"""Which tensors does torch save under a memory budget, and which does it compute again?

torch's min-cut partitioner in plain Python, on a stored joint graph, at any budget: the same cuts, the same knapsack
(``torch/_functorch/partitioners.py`` and ``_activation_checkpointing/knapsack.py`` of torch 2.13, solver "dp").
"""

from __future__ import annotations

import functools
from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from ..doors import door
from .joint_graphs import StoredGraph

QUANTA = 10_000
"""Into so many parts the knapsack divides what the budget of 1 saves."""
PLAIN, AGGRESSIVE, MOST_AGGRESSIVE = range(3)
"""torch's three rounds: with all its rules about what is not computed twice, without three of them, and with few."""


@door
def saved(graph: StoredGraph, budget: float) -> tuple[int, ...]:
    """The nodes that torch's partitioner saves under a budget from 0 to 1, a share of what it saves by itself.

    Raises ValueError for a budget out of range.

    >>> from compile_lab.simulator.budget import saved
    >>> from compile_lab.simulator.joint_graphs import stored_graphs
    >>> graph = stored_graphs()["MiniGPT, one layer"]
    >>> [sum(graph.nodes[at].size for at in saved(graph, budget)) for budget in (0, 0.5, 1)]
    [530528, 2018560, 3980548]
    """
    if not 0 <= budget <= 1:
        raise ValueError(f"budget={budget}: it is a share of what torch saves by itself, from 0 to 1")
    if budget == 0:
        return graph.inputs
    plain = _cut(graph, PLAIN)
    least, most = _gigabytes(graph, graph.inputs), _gigabytes(graph, plain)
    if budget == 1 or most <= least:
        return plain
    for turn in (AGGRESSIVE, MOST_AGGRESSIVE):
        found = _cut(graph, turn)
        if (_gigabytes(graph, found) - least) / (most - least) < budget:
            return found
    if not graph.knapsack:
        return graph.inputs
    sizes = [graph.nodes[at].size / 1e9 / (most - least) for at, _ in graph.knapsack]
    kept = set(_packed(sizes, [flops for _, flops in graph.knapsack], budget))
    again = frozenset(at for index, (at, _) in enumerate(graph.knapsack) if index not in kept)
    return _cut(graph, MOST_AGGRESSIVE, again)


def _gigabytes(graph: StoredGraph, nodes: Iterable[int]) -> float:
    return sum(graph.nodes[at].size for at in nodes) / 1e9


def _packed(sizes: Sequence[float], values: Sequence[float], room: float) -> list[int]:
    """The knapsack: the indices of what is kept, so that most value fits into the room.

    torch fills a table of one row an item and one column a quantum, in float32. A row only rises, at few places, so it
    is kept here as its steps: (column, value). Among equals the same are chosen, since the same table is read.
    """
    rows: list[list[tuple[int, float]]] = [[(0, 0.0)]]
    weights = [round(size * QUANTA) for size in sizes]
    most = round(room * QUANTA)
    for weight, value in zip(weights, values, strict=True):
        value = _single(value)
        taken = [(at + weight, _single(worth + value)) for at, worth in rows[-1] if at + weight <= most]
        rows.append(_highest(rows[-1], taken) if weight else taken)
    kept, column = [], most
    for item in range(len(weights), 0, -1):
        if _worth(rows[item], column) != _worth(rows[item - 1], column):
            kept.append(item - 1)
            column -= weights[item - 1]
    return kept


def _single(value: float) -> float:
    return array("f", [value])[0]


def _highest(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for at, worth in sorted([*one, *other], key=lambda step: (step[0], -step[1])):
        if not found or worth > found[-1][1]:
            found.append((at, worth))
    return found


def _worth(row: list[tuple[int, float]], column: int) -> float:
    return next((worth for at, worth in reversed(row) if at <= column), 0.0)


@functools.lru_cache(maxsize=256)
def _cut(graph: StoredGraph, turn: int, again: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """The cheapest set of nodes whose saving parts what is not computed twice from what the backward needs.

    Each node is an edge as wide as its price. Of several cheapest cuts the one nearest to the backward is taken, as
    networkx takes it, so that the answer does not depend on how the flow was found.
    """
    network, source, sink = _Network(2 * len(graph.nodes) + 2), 2 * len(graph.nodes), 2 * len(graph.nodes) + 1
    endless = 1 + 3 * sum(node.price or 0 for node in graph.nodes)
    for at, node in enumerate(graph.nodes):
        enter, leave = 2 * at, 2 * at + 1
        if node.sink == "in":
            network.edge(enter, sink, endless)
            continue
        if node.sink == "out":
            network.edge(leave, sink, endless)
        if node.banned[turn] and at not in again:
            network.edge(source, enter, endless)
        network.edge(enter, leave, endless if node.price is None else node.price)
    for at, node in enumerate(graph.nodes):
        for given in node.reads:
            if graph.nodes[given].sink != "in":
                network.edge(2 * given + 1, 2 * at, endless)
    network.fill(source, sink)
    near = network.reaching(sink)
    nodes = (at for at, node in enumerate(graph.nodes) if node.sink != "in")
    return tuple(at for at in nodes if 2 * at + 1 in near and 2 * at not in near)


class _Network:
    """Edges with room for a flow, and Dinic's algorithm: along the shortest ways first."""

    def __init__(self, places: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(places)]
        self.ends: list[int] = []
        self.room: list[int] = []

    def edge(self, start: int, end: int, room: int) -> None:
        for at, to, free in ((start, end, room), (end, start, 0)):
            self.edges[at].append(len(self.ends))
            self.ends.append(to)
            self.room.append(free)

    def fill(self, source: int, sink: int) -> None:
        while (depth := self._depths(source)) and sink in depth:
            tried = [0] * len(self.edges)
            while self._pushed(source, sink, depth, tried):
                pass

    def _depths(self, source: int) -> dict[int, int]:
        depth, waiting = {source: 0}, deque([source])
        while waiting:
            at = waiting.popleft()
            for edge in self.edges[at]:
                if self.room[edge] and self.ends[edge] not in depth:
                    depth[self.ends[edge]] = depth[at] + 1
                    waiting.append(self.ends[edge])
        return depth

    def _pushed(self, source: int, sink: int, depth: dict[int, int], tried: list[int]) -> bool:
        way: list[int] = []
        at = source
        while at != sink:
            for edge in self.edges[at][tried[at] :]:
                if self.room[edge] and depth.get(self.ends[edge], -1) == depth[at] + 1:
                    way.append(edge)
                    at = self.ends[edge]
                    break
                tried[at] += 1
            else:
                if not way:
                    return False
                at = self.ends[way.pop() ^ 1]
                tried[at] += 1
        least = min(self.room[edge] for edge in way)
        for edge in way:
            self.room[edge] -= least
            self.room[edge ^ 1] += least
        return True

    def reaching(self, sink: int) -> set[int]:
        """From where the sink can still be reached."""
        found, waiting = {sink}, [sink]
        while waiting:
            for edge in self.edges[waiting.pop()]:
                if self.room[edge ^ 1] and self.ends[edge] not in found:
                    found.add(self.ends[edge])
                    waiting.append(self.ends[edge])
        return found
