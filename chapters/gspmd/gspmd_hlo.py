"""What a compiled XLA program sends: its HLO text, read into collectives. Text in, records out; no jax here.

An instruction may stand in a computation that others call: a fusion's, a loop's body, the inside of an asynchronous
pair. So the entry computation is walked through what it calls, and a loop's body counts as often as XLA says it runs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from compile_lab.doors import door
from compile_lab.simulator.collectives import WORLD, Collective

KINDS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "send",
    "collective-broadcast": "broadcast",
}
"""XLA's operations, and the lab's names for what they do. In a permutation each device sends to one other."""

_BITS = {"pred": 8, "bf16": 16, "token": 0}
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.+)$")
_CALL = re.compile(r"(?:^|\s)([a-z][a-z0-9\-]*)\(")
_SHAPE = re.compile(r"\b(pred|token|bf16|[a-z]\d+\w*)\[([\d,<=]*)\]")


@dataclass(frozen=True)
class Sent:
    """One collective of a compiled program, as each device takes part in it.

    ``shapes`` are what it is handed or leaves on a device, one for each tensor in it: XLA puts several into one.
    ``payload_nbytes`` is the whole tensors of one run, as in a `Collective`; it runs ``times`` in a step. ``numbers``
    are those in its largest tensor. ``source`` is jax's name for the operation it belongs to.
    """

    kind: str
    name: str
    axis: str
    ranks: int
    shapes: tuple[str, ...]
    payload_nbytes: int
    numbers: int
    times: int
    source: str

    def __str__(self) -> str:
        often = f"{self.times} × " if self.times > 1 else ""
        return f"{often}{self.kind} of {', '.join(self.shapes)} over {self.axis}, {self.payload_nbytes:,} bytes"


@door
def sent(hlo: str, axes: Mapping[str, int]) -> tuple[Sent, ...]:
    """Every collective of a compiled program's text, in the text's order, on a mesh of these ``axes``.

    Raises ValueError for text without an entry computation, for a loop with a collective in it whose number of rounds
    XLA does not know, and for a collective in a branch that is chosen while the program runs: neither can be counted.
    """
    computations, entry = _computations(hlo)
    return tuple(_walk(computations, entry, 1, dict(axes)))


@door
def totals(found: tuple[Sent, ...]) -> tuple[Collective, ...]:
    """The same by axis and kind, as DTensor's are counted: those of a single number are left out.

    An all-reduce of several tensors is one.
    """
    kept = [each for each in found if each.numbers > 1]
    groups = sorted({(each.axis, each.kind, each.ranks) for each in kept})
    mine = {group: [each for each in kept if (each.axis, each.kind, each.ranks) == group] for group in groups}
    return tuple(
        Collective(kind, axis, ranks, sum(e.times for e in rows), sum(e.times * e.payload_nbytes for e in rows))
        for (axis, kind, ranks), rows in mine.items()
    )


def _computations(hlo: str) -> tuple[dict[str, list[tuple[str, str]]], str]:
    """Each computation's instructions as (name, the rest of the line), and the entry's name."""
    found: dict[str, list[tuple[str, str]]] = {}
    entry, current = "", ""
    for line in hlo.splitlines():
        if header := _HEADER.match(line):
            current = header[2]
            found[current] = []
            entry = current if header[1] else entry
        elif current and (instruction := _INSTRUCTION.match(line)):
            found[current].append((instruction[1], instruction[2]))
    if not entry:
        raise ValueError(f"hlo has no ENTRY computation; hand over a compiled program's text, not {hlo[:40]!r}")
    return found, entry


def _walk(computations: Mapping[str, list], name: str, times: int, axes: dict[str, int]) -> Iterator[Sent]:
    for instruction, text in computations.get(name, ()):
        text = re.sub(r"/\*.*?\*/", "", text)  # XLA numbers a long tuple's members in comments
        made, operation = _split(text)
        if operation.removesuffix("-start") in KINDS:
            yield _sent(instruction, made, operation, text, times, axes)
            continue
        if operation == "async-done" or operation == "async-update":
            continue  # its start has been walked
        for attribute, called in re.findall(r"\b(calls|body|to_apply)=%?([\w.\-]+)", text):
            if attribute == "to_apply" and operation != "call":
                continue  # what a reduction or a sort does to two numbers
            inside = list(_walk(computations, called, times, axes))
            if inside and attribute == "body":
                rounds = re.search(r'"known_trip_count":\{"n":"(\d+)"', text)
                if not rounds:
                    raise ValueError(f"hlo: the loop {instruction} has {len(inside)} collectives and no known end")
                inside = list(_walk(computations, called, times * int(rounds[1]), axes))
            yield from inside
        if operation == "conditional" and any(list(_walk(computations, b, 1, axes)) for b in _branches(text)):
            raise ValueError(f"hlo: {instruction} has collectives in a branch that is chosen while the program runs")


def _split(text: str) -> tuple[str, str]:
    """What an instruction makes, and its operation: the first word before a parenthesis outside of the type."""
    at = 0
    if text.startswith("("):
        depth = 0
        for place, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                at = place
                break
    call = _CALL.search(text, at + 1 if at else 0)
    return (text[: call.start()], call[1]) if call else (text, "")


def _branches(text: str) -> list[str]:
    several = re.search(r"branch_computations=\{([^}]*)\}", text)
    named = re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", text)
    return named + (re.findall(r"[\w.\-]+", several[1]) if several else [])


def _sent(name: str, made: str, operation: str, text: str, times: int, axes: dict[str, int]) -> Sent:
    started = operation.endswith("-start")
    operation = operation.removesuffix("-start")
    shapes = _SHAPE.findall(made)
    if started and (operation in ("all-gather", "collective-permute") or made.strip().startswith("((")):
        shapes = _results(made)  # a start makes the pair of what it is handed and what it will leave
    groups = _groups(text, prod(axes.values()))
    axis, ranks = _axis(groups, axes, operation)
    whole = ranks if operation == "reduce-scatter" else 1  # what it is given is as many times what it leaves
    source = re.search(r'op_name="([^"]*)"', text)
    sizes = [_numbers(dims) for _, dims in shapes]
    payload = whole * sum(_bits(dtype) * size // 8 for (dtype, _), size in zip(shapes, sizes, strict=True))
    words = tuple(f"{dtype}[{dims}]" for dtype, dims in shapes)
    return Sent(KINDS[operation], name, axis, ranks, words, payload, max(sizes), times, source[1] if source else "")


def _results(made: str) -> list[tuple[str, str]]:
    """Of ``((inputs), (results), …)`` or ``(input, result, …)`` the results: the second member."""
    depth, members = 0, [""]
    for letter in made.strip()[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            members.append("")
        else:
            members[-1] += letter
    return _SHAPE.findall(members[1])


def _numbers(dims: str) -> int:
    return prod(int(each.lstrip("<=")) for each in dims.split(",") if each)


def _bits(dtype: str) -> int:
    return _BITS[dtype] if dtype in _BITS else int(re.findall(r"\d+", dtype)[0])


Groups = frozenset[frozenset[int]]


def _groups(text: str, devices: int) -> Groups:
    """The groups of devices, out of the three ways in which XLA writes them; of a permutation, its pairs."""
    if pairs := re.search(r"source_target_pairs=\{(\{.*?\})\}", text):
        return frozenset(frozenset(map(int, re.findall(r"\d+", one))) for one in re.findall(r"\{([^{}]*)\}", pairs[1]))
    if named := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, ?device_ids=\((.*?)\))? ?\{([^}]*)\}", text):
        sizes = {axis: int(size) for axis, size in re.findall(r"'([^']+)'=(\d+)", named[1])}
        places = _along(sizes, set(re.findall(r"'([^']+)'", named[3])))
        ids = _mesh_order(named[2], prod(sizes.values()))
        return frozenset(frozenset(ids[place] for place in group) for group in places)
    if listed := re.search(r"replica_groups=\{((?:\{[^{}]*\},?)*)\}", text):
        found = [frozenset(map(int, one.split(","))) for one in re.findall(r"\{([\d,]+)\}", listed[1])]
        return frozenset(found) or frozenset([frozenset(range(devices))])
    if tiled := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text):
        return _tiled(int(tiled[2]), [int(n) for n in tiled[3].split(",")], tiled[4])
    raise ValueError(f"hlo: a collective's groups are not understood: {text[:200]}")


def _mesh_order(order: str | None, devices: int) -> list[int]:
    """The devices of a mesh in its order: ``0,2,1,3``, or the same as ``[2,2]T(1,0)``; None is one after another."""
    if not order:
        return list(range(devices))
    tiled = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", order)
    return _transposed([int(n) for n in tiled[1].split(",")], tiled[2]) if tiled else [int(n) for n in order.split(",")]


def _tiled(size: int, dims: list[int], order: str | None) -> Groups:
    """``[groups, size]<=[dims]T(order)``: all devices counted in dims, transposed, cut into pieces of ``size``."""
    ids = _transposed(dims, order)
    return frozenset(frozenset(ids[at : at + size]) for at in range(0, len(ids), size))


def _transposed(dims: list[int], order: str | None) -> list[int]:
    """The numbers of an array that counts through ``dims``, once its axes are in another order."""
    axes = [int(n) for n in order.split(",")] if order else list(range(len(dims)))
    strides = [prod(dims[at + 1 :]) for at in range(len(dims))]
    return [
        sum(place * strides[axis] for place, axis in zip(places, axes, strict=True))
        for places in product(*(range(dims[axis]) for axis in axes))
    ]


def _along(axes: Mapping[str, int], names: set[str]) -> Groups:
    """The groups of devices that differ along ``names`` alone, of a mesh counted through its axes in order."""
    order = [each for each in axes if each not in names] + [each for each in axes if each in names]
    size, places = prod(axes[each] for each in names), list(axes)
    return _tiled(size, list(axes.values()), ",".join(str(places.index(each)) for each in order))


def _axis(groups: Groups, axes: Mapping[str, int], operation: str) -> tuple[str, int]:
    """The axis of the mesh that these groups go along, or several joined by ``+``, and the devices in a group."""
    for many in range(1, len(axes) + 1):
        for names in combinations(axes, many):
            along = _along(axes, set(names))
            if groups == along:
                return "+".join(names), max(map(len, groups))
            if operation == "collective-permute" and all(any(pair <= one for one in along) for pair in groups):
                return "+".join(names), max(map(len, along))
    return WORLD, max(map(len, groups))
