"""What Inductor wrote, as a reader sees it: launches, the schedule around fusion, where fusion stopped, the code."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..dynamo.tracing import readable
from ..page.tables import Cell, Code, Table
from ..page.units import MB, number
from ..source import Line
from .generated import GeneratedCode
from .records import EXTERN, InductorGraph, Kernel
from .traffic import Traffic


def launches(code: GeneratedCode, direction: str | None = None) -> Table:
    """One row a launch: the kernel, who wrote it, the operations and lines it computes, the bytes it moves."""
    kernels = [kernel for kernel in code.kernels if direction in (None, kernel.direction)]
    rows = [(*(() if direction else (kernel.direction,)), *_launch(kernel)) for kernel in kernels]
    return Table(_LAUNCH if direction else ["graph", *_LAUNCH], rows, caption=evidence(code))


def launches_of(codes: Mapping[str, GeneratedCode]) -> Table:
    """The launches of several cases, one below the other."""
    rows = [(case, *_launch(kernel)) for case, code in codes.items() for kernel in code.kernels]
    return Table(["case", *_LAUNCH], rows, caption=evidence(next(iter(codes.values()))))


_LAUNCH = ["kernel", "written in", "computes", "from", "bytes"]


def _launch(kernel: Kernel) -> tuple[Cell, ...]:
    language = "a library" if kernel.language == EXTERN else kernel.language
    ops = operations(origin.op for origin in kernel.computed)
    return Code(short(kernel)), language, ops, lines(kernel.lines), kernel.nbytes


def schedule(graph: InductorGraph) -> Table:
    """One row a loop nest or call, as it was before fusion, and the kernel that it went into."""
    names = {part: kernel.name for kernel in graph.kernels for part in kernel.parts}
    ops = {origin.node: origin.op for origin in graph.nodes}
    rows = [
        (
            group.name,
            group.kind,
            " → ".join(map(str, reversed(group.space))) if group.kind == "reduction" else _points(group.space),
            operations(ops[node] for node in group.nodes),
            group.nbytes,
            Code(shortened(names.get(group.name, "no code"))),
        )
        for group in graph.before
        if group.kind != "nop"
    ]
    return Table(["entry", "kind", "loops over", "computes", "bytes", "goes into"], rows, align="llllrl")


def fusion(code: GeneratedCode, eager: Traffic) -> Table:
    """One row a graph: launches and bytes of eager as it comes, of Inductor's schedule unfused, and of it fused."""
    rows = []
    for graph in code.graphs:
        before = [group for group in graph.before if group.kind != "nop"]
        direction = "backward" if graph.direction == "backward" else "forward"
        here = (len(eager.of(direction)), len(before), len(graph.kernels))
        rows.append((graph.direction, *here, eager.nbytes(direction), graph.unfused_nbytes, graph.fused_nbytes))
    columns = ["graph", "eager launches", "loops and calls unfused", "launches fused"]
    columns += ["bytes, eager", "bytes, unfused", "bytes, fused"]
    return Table(columns, rows, caption=evidence(code))


def boundaries(graph: InductorGraph) -> Table:
    """One row for each place at which a kernel hands a buffer to another: why the two are not one."""
    names = {part: kernel.name for kernel in graph.kernels for part in kernel.parts}
    rows = [
        (Code(shortened(names[b.first.parts[0]])), Code(shortened(names[b.second.parts[0]])), b.reason)
        for b in graph.boundaries
        if b.first.parts[0] in names and b.second.parts[0] in names
    ]
    return Table(["writes", "reads", "why they are two kernels"], rows)


def kernel_code(kernel: Kernel) -> Code:
    """A kernel without its header."""
    return Code(kernel.body, "cpp" if kernel.language == "cpp" else "python", f"`{kernel.name}`")


def post_grad(graph: InductorGraph) -> Code:
    """The graph that Inductor received, as readable Python."""
    lines_ = [line for line in readable(graph.code).splitlines() if line.strip() and "No stacktrace" not in line]
    body = [line.removeprefix("    ") for line in lines_ if not line.startswith("class ")]
    return Code("\n".join(body))


def evidence(code: GeneratedCode) -> str:
    """Where code comes from, without the day and the build of torch: the same torch writes the same on any."""
    known = replace(code.provenance, torch=code.provenance.torch.partition("+")[0])
    return str(known).removesuffix(f" · {known.date}")


def operations(ops: Iterable[str]) -> str:
    """Operations by their short names, each with its count: ``add ×2, gelu``."""
    counts = Counter(re.sub(r"^(aten|prims|prim)\.|\.\w+$", "", op) for op in ops)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def lines(places: Iterable[Line]) -> str:
    """Places, one below the other."""
    return "\n".join(map(str, places))


def short(kernel: Kernel) -> str:
    """A kernel's name as a table can hold it."""
    return shortened(kernel.name)


def shortened(name: str) -> str:
    """``triton_per_fused_add_native_layer_norm_1`` without what every name has; a long middle is left out."""
    name = re.sub(r"^(extern_kernels|torch\.ops\.aten|aten)\.|\.default$", "", name).removeprefix("triton_")
    return name if len(name) <= 36 else f"{name[:24]}…{name[-11:]}"


def _points(space: tuple[int | str, ...]) -> str:
    first = space[0] if space else ""
    return number(first) if isinstance(first, int) else first


def totals(traffics: Mapping[str, Traffic]) -> Table:
    """One row a way and direction: launches, bytes with and without the matmuls, and bytes of intermediates."""
    rows: list[list[Cell]] = []
    for direction in ("forward", "backward"):
        for way, traffic in traffics.items():
            between = sum(each.nbytes for each in traffic.in_role("intermediate", direction))
            kept = sum(each.nbytes for each in traffic.in_role("saved", direction)) if direction == "forward" else None
            sizes = [traffic.nbytes(direction), traffic.nbytes(direction, matmuls=False), between, kept]
            rows.append([direction, way, len(traffic.of(direction)), *(n and round(n / MB, 1) for n in sizes)])
    columns = ["", "way", "launches", "MB moved", "outside matmuls", "MB intermediate", "MB saved"]
    return Table(columns, rows, align="llrrrrr")
