"""Joint graphs that AOTAutograd made once, stored as numbers: sizes, prices, who reads whom, and more.

``memory.stored_graph`` makes them, ``budget`` partitions them, ``lifetimes`` tells their tensors' lives: all in a page.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from dataclasses import dataclass, field
from typing import Any

STORED = "graphs.json"


@dataclass(frozen=True)
class JointNode:
    """One node of the joint graph. Indices are places in ``StoredGraph.nodes``, which run in the graph's order."""

    name: str
    op: str
    line: int
    """An index into ``StoredGraph.lines``; -1 for none."""
    reads: tuple[int, ...]
    size: int
    """Bytes, as the partitioner counts them."""
    price: int | None
    """Of saving it: bytes, weighted by the distance to the backward; None for what cannot be saved."""
    sink: str
    """"in" for what the backward must compute, "out" for what it must have, else empty."""
    banned: tuple[bool, ...]
    """In each of torch's three rounds: may it not be computed twice?"""
    buffers: tuple[int | None, ...]
    """One for each of its results: bytes of memory of its own, or None for a view, and for what is no tensor."""
    shows: tuple[int | None, ...]
    """One for each of its results: whose buffer it shows."""
    member: int | None
    """Of a getitem: which result it takes."""
    in_place: bool
    title: str = ""
    """Of an input: what the user calls it."""


@dataclass(frozen=True)
class StoredGraph:
    """A joint graph: what a step is made of, before it is decided what is saved. Bytes; arithmetic in FLOP."""

    name: str
    torch: str
    """The torch that made it."""
    nodes: tuple[JointNode, ...] = field(repr=False)
    lines: tuple[tuple[str, int, str], ...] = field(repr=False)
    """File, line number (0 where the file's name says it), text."""
    outputs: tuple[int, ...]
    gradients: tuple[tuple[int, int, bool], ...] = field(repr=False)
    """Result, the input whose gradient it is, and whether it lies in memory as that does."""
    knapsack: tuple[tuple[int, int], ...] = field(repr=False)
    """What may be computed twice if need be, in the knapsack's order: node, FLOP."""

    @functools.cached_property
    def inputs(self) -> tuple[int, ...]:
        """Parameters and inputs."""
        return tuple(at for at, node in enumerate(self.nodes) if node.op == "input")

    @functools.cached_property
    def flops(self) -> dict[int, int]:
        """Arithmetic of the matmuls; torch counts 1 for what has none."""
        return {at: flops for at, flops in self.knapsack if flops > 1}

    def place(self, at: int) -> str:
        """Where a node comes from: ``model.py:63``; empty where nobody knows."""
        if self.nodes[at].line < 0:
            return ""
        file, line, _ = self.lines[self.nodes[at].line]
        return f"{file}:{line}" if line else file


@functools.cache
def stored_graphs() -> dict[str, StoredGraph]:
    """The graphs that are stored, by name."""
    text = pkgutil.get_data(__package__, STORED) or b""  # from a zip, too: a page has no folder
    return {name: from_json(name, given) for name, given in json.loads(text).items()}


def from_json(name: str, given: dict[str, Any]) -> StoredGraph:
    """A graph out of what ``memory.stored_graph`` made."""
    nodes = []
    for row in given["nodes"]:
        called, op, line, reads, size, price, sink, banned, buffers, shows, member, in_place, title = row
        bans = tuple(bool(banned >> turn & 1) for turn in range(3))
        kept = tuple(buffers), tuple(shows), member, bool(in_place), title
        nodes.append(JointNode(called, op, line, tuple(reads), size, price, sink, bans, *kept))
    lines = tuple(tuple(line) for line in given["lines"])
    gradients = tuple((result, of, bool(alike)) for result, of, alike in given["gradients"])
    knapsack = tuple(tuple(item) for item in given["knapsack"])
    return StoredGraph(name, given["torch"], tuple(nodes), lines, tuple(given["outputs"]), gradients, knapsack)
