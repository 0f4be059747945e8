"""Launches as boxes to scale: as wide as the bytes that each moves, row under row on one scale."""

from collections.abc import Mapping, Sequence

from ..page.canvas import WIDTH, Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import with_unit
from .generated import GeneratedCode
from .records import EXTERN, Group, Kernel
from .traffic import MATMULS, Traffic, launch_of
from .view import evidence, fusion, launches_of, operations
from .view import launches as launches_table

KINDS = {
    "a library's matmul": "blue",
    "torch's own kernel": "sky",
    "a loop that is not fused": "grey",
    "a kernel that Inductor wrote": "orange",
}
_OF_LAUNCH = {"matmul": "a library's matmul", "aten": "torch's own kernel", "generated": "a kernel that Inductor wrote"}
ROW, STEP, GAP, RIGHT, LEAST = 36.0, 76.0, 2.0, 130.0, 6.0

Boxes = Sequence[tuple[str, str, int]]
"""Of each box its words, its kind and its bytes."""


def launches(codes: GeneratedCode | Mapping[str, GeneratedCode], direction: str | None = None) -> Drawing:
    """A row a direction of the code, or a row a case; each launch with what it computes, its table folded under it."""
    if isinstance(codes, GeneratedCode):
        wanted = [graph.direction for graph in codes.graphs if direction in (None, graph.direction)]
        rows = {way: [_box(kernel) for kernel in codes.kernels if kernel.direction == way] for way in wanted}
        return _drawn(rows, launches_table(codes, direction), evidence(codes), "launch")
    rows = {case: [_box(kernel) for kernel in code.kernels] for case, code in codes.items()}
    return _drawn(rows, launches_of(codes), evidence(next(iter(codes.values()))), "launch")


def fused(code: GeneratedCode, eager: Traffic) -> Drawing:
    """For each graph three rows: eager as it comes, Inductor's schedule as if each entry were a kernel, and as fused.

    ``eager`` is what eager code launches for the same function (`traffic.eager_traffic`).
    """
    rows: dict[str, Boxes] = {}
    for graph in code.graphs:
        ops = {origin.node: origin.op for origin in graph.nodes}
        before = [group for group in graph.before if group.kind != "nop"]
        rows[f"{graph.direction}, eager"] = _boxes(eager, "backward" if graph.direction == "backward" else "forward")
        rows[f"{graph.direction}, Inductor's schedule unfused"] = [
            (operations(ops[node] for node in group.nodes), _kind_of(group, ops), group.nbytes) for group in before
        ]
        rows[f"{graph.direction}, fused"] = [_box(kernel) for kernel in graph.kernels]
    return _drawn(rows, fusion(code, eager), evidence(code), "box")


def moved(traffics: Mapping[str, Traffic], direction: str) -> Drawing:
    """A row for each of several ways to compute the same, a box a launch, in order."""
    rows = {way: _boxes(traffic, direction) for way, traffic in traffics.items()}
    cells = [[way, name, kind, nbytes] for way, boxes in rows.items() for name, kind, nbytes in boxes]
    return _drawn(rows, Table(["way", "launch", "is", "bytes"], cells), "", "launch")


def _boxes(traffic: Traffic, direction: str) -> Boxes:
    return [(each.name, _OF_LAUNCH[each.kind], each.nbytes) for each in traffic.of(direction)]


def _box(kernel: Kernel) -> tuple[str, str, int]:
    return operations(origin.op for origin in kernel.computed), _OF_LAUNCH[launch_of(kernel).kind], kernel.nbytes


def _kind_of(group: Group, ops: Mapping[str, str]) -> str:
    if group.kind != EXTERN:
        return "a loop that is not fused"
    matmul = any(ops[node].split(".")[1] in MATMULS for node in group.nodes if "." in ops[node])
    return _OF_LAUNCH["matmul" if matmul else "aten"]


def _drawn(rows: Mapping[str, Boxes], table: Table, source: str, thing: str) -> Drawing:
    canvas = Canvas()
    most, longest = max(map(_total, rows.values())), max(map(len, rows.values()))
    scale = (WIDTH - RIGHT - (GAP + LEAST) * longest) / max(1, most)
    for at, (name, boxes) in enumerate(rows.items()):
        y = at * STEP
        canvas.words(0, y + 20, f"{name}: {len(boxes)} {thing}{'es' * (len(boxes) != 1)}", size=16)
        x = 0.0
        for words, kind, nbytes in boxes:
            width = max(nbytes * scale, LEAST)  # a small one is still seen
            canvas.box(x, y + 28, width, ROW, KINDS[kind], title=f"{words}: {with_unit(nbytes)}")
            x += width + GAP
        canvas.words(x + 8, y + 52, with_unit(_total(boxes)), bold=True)
    kinds = {kind for boxes in rows.values() for _, kind, _ in boxes}
    said = "; ".join(f"{name}: {len(boxes)}, {with_unit(_total(boxes))}" for name, boxes in rows.items())
    return Drawing(
        canvas.svg(),
        f"Boxes as wide as the bytes that each moves. {said}.",
        f"A {thing} is as wide as the bytes that it moves, all on one scale; point at it for what it computes",
        table=table,
        provenance=source or None,
        legend=key({kind: colour for kind, colour in KINDS.items() if kind in kinds}),
    )


def _total(boxes: Boxes) -> int:
    return sum(nbytes for *_, nbytes in boxes)
