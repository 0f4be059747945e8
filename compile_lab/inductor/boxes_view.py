"""Launches as segments as long as the bytes that each moves, row under row on one axis."""

from collections.abc import Mapping

from ..page.figures import Drawing
from ..page.marks import Axis, Row, Segment, segments, short
from ..page.tables import Cell, Table
from ..page.units import MB, with_unit
from .generated import GeneratedCode
from .records import EXTERN, Group, Kernel
from .traffic import MATMULS, Traffic, launch_of
from .view import evidence, fusion, launches_of, operations
from .view import launches as launches_table

UNFUSED = "a loop that is not fused"
KINDS = {
    "a library's matmul": "blue",
    "torch's own kernel": "sky",
    UNFUSED: "grey",
    "a kernel that Inductor wrote": "orange",
}
OF_LAUNCH = {"matmul": "a library's matmul", "aten": "torch's own kernel", "generated": "a kernel that Inductor wrote"}


def launches(codes: GeneratedCode | Mapping[str, GeneratedCode], direction: str | None = None) -> Drawing:
    """A row a direction of the code, or a row a case; each launch with what it computes."""
    if isinstance(codes, GeneratedCode):
        wanted = [graph.direction for graph in codes.graphs if direction in (None, graph.direction)]
        rows = {way: [_launch(kernel) for kernel in codes.kernels if kernel.direction == way] for way in wanted}
        return _drawn(rows, _rows_text(rows), launches_table(codes, direction), evidence(codes))
    rows = {case: [_launch(kernel) for kernel in code.kernels] for case, code in codes.items()}
    return _drawn(rows, _rows_text(rows), launches_of(codes), evidence(next(iter(codes.values()))))


def fused(code: GeneratedCode, eager: Traffic) -> Drawing:
    """For each graph three rows: eager as it comes, Inductor's schedule as if each entry were a kernel, and as fused.

    ``eager`` is what eager code launches for the same function (`traffic.eager_traffic`).
    """
    rows: dict[str, list[Segment]] = {}
    told = []
    for graph in code.graphs:
        ops = {origin.node: origin.op for origin in graph.nodes}
        before = [group for group in graph.before if group.kind != "nop"]
        found = {
            "eager": _of(eager, "backward" if graph.direction == "backward" else "forward"),
            "Inductor's schedule unfused": [
                _segment(operations(ops[node] for node in group.nodes), _kind_of(group, ops), group.nbytes)
                for group in before
            ],
            "fused": [_launch(kernel) for kernel in graph.kernels],
        }
        rows |= {f"{graph.direction}, {name}": parts for name, parts in found.items()}
        part = "function" if graph.direction == "inference" else graph.direction
        told.append(f"the {part} moves {_total(found['fused'])} instead of eager's {_total(found['eager'])}")
    return _drawn(rows, f"fused, {'; '.join(told)}", fusion(code, eager), evidence(code))


def moved(traffics: Mapping[str, Traffic], direction: str) -> Drawing:
    """A row for each of several ways to compute the same, a segment a launch, in order."""
    rows = {way: _of(traffic, direction) for way, traffic in traffics.items()}
    cells: list[list[Cell]] = [
        [way, each.name, OF_LAUNCH[each.kind], each.nbytes] for way, t in traffics.items() for each in t.of(direction)
    ]
    return _drawn(rows, f"{direction}, {_rows_text(rows)}", Table(["way", "launch", "is", "bytes"], cells))


def _segment(words: str, kind: str, nbytes: int) -> Segment:
    return Segment(kind, nbytes / MB, words=words, title=f"{words}: {with_unit(nbytes)}")


def _of(traffic: Traffic, direction: str) -> list[Segment]:
    return [_segment(each.name, OF_LAUNCH[each.kind], each.nbytes) for each in traffic.of(direction)]


def _launch(kernel: Kernel) -> Segment:
    return _segment(
        operations(origin.op for origin in kernel.computed), OF_LAUNCH[launch_of(kernel).kind], kernel.nbytes
    )


def _kind_of(group: Group, ops: Mapping[str, str]) -> str:
    if group.kind != EXTERN:
        return UNFUSED
    matmul = any(ops[node].split(".")[1] in MATMULS for node in group.nodes if "." in ops[node])
    return OF_LAUNCH["matmul" if matmul else "aten"]


def _drawn(rows: Mapping[str, list[Segment]], title: str, table: Table, source: str | None = None) -> Drawing:
    return segments(
        [Row(name, parts, _counted(parts)) for name, parts in rows.items()],
        Axis("moved", "MB"),
        title=f"{title[:1].upper()}{title[1:]}.",
        colours=KINDS,
        table=table,
        provenance=source,
    )


def _rows_text(rows: Mapping[str, list[Segment]]) -> str:
    """What the rows are, as a title has it: ``forward: 9 launches, 7.0 MB; …``."""
    return "; ".join(f"{name}: {_counted(parts)}" for name, parts in rows.items())


def _counted(parts: list[Segment]) -> str:
    unfused = any(part.series == UNFUSED for part in parts)
    things = "loops and calls" if unfused else "launch" if len(parts) == 1 else "launches"
    return f"{len(parts)} {things}, {_total(parts)}"


def _total(parts: list[Segment]) -> str:
    return f"{short(sum(part.value for part in parts))} MB"
