"""The tensors that a training step keeps between forward and backward: the bytes, reader and reason of each."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from ..page.units import without_namespace
from ..source import Line
from ..tensors import nbytes, storage_nbytes, storage_of
from .nodes import Graph, Node, op_of
from .partition import ALLOWLIST, CHEAPEST, WORDS, Cut, is_view, origin_of


@dataclass(frozen=True)
class Reader:
    """An operation of the backward that reads a saved tensor, and the forward line whose gradient it computes."""

    op: str
    source: Line | None

    def __str__(self) -> str:
        return f"{self.op} (gradient of {self.source})" if self.source else self.op


@dataclass(frozen=True)
class SavedTensor:
    """A tensor that the forward hands to the backward."""

    name: str
    op: str
    """The operation that made it, of a member of a tuple too; ``input`` for inputs and parameters."""
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    """Bytes of its elements."""
    extra_nbytes: int
    """Bytes that are kept for its sake: its buffer's, or 0 for a buffer that is there anyway or is counted already."""
    rule: str
    """The partitioner's rule, in torch's own words where it has any."""
    why: str
    """The same as a sentence, about this tensor."""
    source: Line | None
    """The forward line that made it; for an input, the first line that reads it."""
    readers: tuple[Reader, ...]
    title: str
    """Of an input: ``blocks.0.mlp.up.weight``; else empty."""
    resident: bool
    """True for inputs, parameters and views of them: saving them keeps no further byte."""
    view_of: str
    """The node whose buffer it shows, if it is a view; else empty."""
    count: int = 1
    """How many alike it stands for, after ``folded``: then the bytes are of all of them."""

    def __str__(self) -> str:
        times = f" ×{self.count}" if self.count > 1 else ""
        at = f", {self.source}" if self.source else ""
        return f"{self.title or self.name}{times}: {self.op} {self.dtype}{list(self.shape)}{at}: {self.why}"


@dataclass(frozen=True)
class Recomputed:
    """An operation that runs in the forward and once more in the backward, so that its result need not be kept."""

    name: str
    op: str
    shape: tuple[int, ...] | None
    source: Line | None
    nbytes: int
    """Bytes of its result; 0 for a view, which has no buffer of its own."""


def saved_tensors(
    outputs: Sequence[object], forward: Graph, backward: Graph, cut: Cut, parameters: set[str]
) -> tuple[SavedTensor, ...]:
    """What the forward graph returns for the backward alone (``outputs``), in the partitioner's order.

    ``parameters`` names the inputs that are parameters or buffers. Symbolic sizes are left out: they are no tensors.
    """
    owners, readers = _owners(forward), _readers_of(backward)
    kept = {node.name for node in outputs if isinstance(node, torch.fx.Node)}
    counted = {storage for storage, owner in owners.items() if owner.op == "placeholder"}
    found = []
    for node in outputs:
        if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        storage, known = storage_of(node.meta["val"]), forward[node.name]
        owner = owners[storage]
        rule = cut.rule(node)
        if owner.op == "placeholder":
            rule = "a parameter" if owner.name in parameters else "an input"
        found.append(
            SavedTensor(
                name=node.name,
                op=known.op if known.op != "getitem" else op_of(node.all_input_nodes[0]),
                shape=known.shape or (),
                dtype=known.dtype,
                nbytes=known.nbytes,
                extra_nbytes=0 if storage in counted else storage_nbytes(node.meta["val"]),
                rule=rule,
                why=_why(node, owner, rule, cut, kept),
                source=known.source or _first_line(node.name, forward),
                readers=readers(node.name),
                title=forward[owner.name].title,
                resident=owner.op == "placeholder",
                view_of=owner.name if owner.name != node.name else "",
            )
        )
        counted.add(storage)
    return tuple(found)


def recomputed(forward: Graph, backward: Graph, names: set[str]) -> tuple[Recomputed, ...]:
    """The operations of those names, in the order in which the backward runs them."""
    owned = {node.name for node in _owners(forward).values()}
    return tuple(
        Recomputed(node.name, node.op, node.shape, node.source, node.nbytes if node.name in owned else 0)
        for node in backward.nodes
        if node.name in names and node.op != "getitem"
    )


def folded(saved: Iterable[SavedTensor]) -> tuple[SavedTensor, ...]:
    """Tensors that agree in operation, shape, dtype, line and reason, as one with a count and their bytes together.

    So the layers of a model, which run the same lines, fold into one of each kind.
    """
    alike: dict[tuple[object, ...], list[SavedTensor]] = defaultdict(list)
    for each in saved:
        place = (each.source.file, each.source.line) if each.source else None
        role = each.title.rpartition(".")[2] if each.title else ""
        alike[each.op, each.shape, each.dtype, place, each.rule, each.resident, role].append(each)
    return tuple(
        replace(
            group[0],
            count=len(group),
            nbytes=sum(each.nbytes for each in group),
            extra_nbytes=sum(each.extra_nbytes for each in group),
            title=_common([each.title for each in group]),
        )
        for group in alike.values()
    )


def _common(titles: list[str]) -> str:
    """One name for several: ``blocks.*.norm1.weight``."""
    parts = [title.split(".") for title in titles]
    if len({len(part) for part in parts}) != 1:
        return titles[0]
    return ".".join(piece[0] if len(set(piece)) == 1 else "*" for piece in zip(*parts, strict=True))


def _owners(forward: Graph) -> dict[int, torch.fx.Node]:
    """For each buffer, the first node that has it: an input, or the operation that filled it."""
    owners: dict[int, torch.fx.Node] = {}
    for node in forward.module.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            owners.setdefault(storage_of(node.meta["val"]), node)
    return owners


def _first_line(name: str, graph: Graph) -> Line | None:
    return next((node.source for node in graph.nodes if name in node.inputs and node.source), None)


def _readers_of(backward: Graph) -> Callable[[str], tuple[Reader, ...]]:
    """Who reads a tensor in the backward; where that only makes a view of it, who reads the view."""
    views = {node.name for node in backward.module.graph.nodes if node.op == "call_function" and is_view(node)}
    reading: dict[str, list[Node]] = defaultdict(list)
    for node in backward.nodes:
        for each in node.inputs if node.is_op else ():
            reading[each].append(node)

    def readers(name: str) -> tuple[Reader, ...]:
        found: dict[Reader, None] = {}
        waiting = [name]
        for at in waiting:  # grows on the way
            for node in reading.get(at, ()):
                if node.name in views:
                    waiting.append(node.name)
                else:
                    found[Reader(node.op, node.source)] = None
        return tuple(found)

    return readers


def _why(node: torch.fx.Node, owner: torch.fx.Node, rule: str, cut: Cut, kept: set[str]) -> str:
    origin = origin_of(node, cut.banned)
    if rule == CHEAPEST:
        said = _cheapest(node, cut, kept)
    elif rule == ALLOWLIST:
        said = f"{_family(origin)}: not on torch's list of operations that may run twice"
    else:
        said = WORDS.get(rule, rule)
    return f"a view of {said}" if rule in ("an input", "a parameter") and owner.name != node.name else said


def _cheapest(node: torch.fx.Node, cut: Cut, kept: set[str]) -> str:
    missing = [each for each in cut.needed_by(node) if each.name not in kept]
    if not missing:
        return "the cheapest place to cut"
    ops = ", ".join(dict.fromkeys(_short(each) for each in missing))
    here, there = nbytes(node.meta["val"]), sum(nbytes(each.meta.get("val")) for each in missing)
    return f"the cheapest place to cut: {here:,} bytes here, {there:,} for what it is computed from ({ops})"


_FAMILIES = {
    "mm": "a matmul",
    "convolution": "a convolution",
    "attention": "attention",
    "rand": "a random draw",
    "dropout": "a random draw",
}


def _family(node: torch.fx.Node) -> str:
    op = _short(node)
    return next((family for part, family in _FAMILIES.items() if part in op), op)


def _short(node: torch.fx.Node) -> str:
    return without_namespace(op_of(node))
