"""What Inductor wrote, as a reader sees it: launches, the schedule around fusion, where fusion stopped, the code."""

import re
from collections import Counter
from collections.abc import Iterable

from compile_lab.dynamo import readable
from compile_lab.inductor import EXTERN, GeneratedCode, InductorGraph, Kernel
from compile_lab.panels import Code, Table
from compile_lab.places import Line


def launches(code: GeneratedCode, direction: str | None = None) -> Table:
    """One row a launch: the kernel, who wrote it, the operations and lines it computes, the bytes it moves."""
    rows = [
        (
            *(() if direction else (kernel.direction,)),
            Code(short(kernel)),
            "a library" if kernel.language == EXTERN else kernel.language,
            operations(origin.op for origin in kernel.origins),
            lines(kernel.lines),
            kernel.nbytes,
        )
        for kernel in code.kernels
        if direction in (None, kernel.direction)
    ]
    columns = ["kernel", "written in", "computes", "from", "bytes"]
    return Table(columns if direction else ["graph", *columns], rows, caption=str(code.provenance))


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


def fusion(code: GeneratedCode) -> Table:
    """One row a graph: nodes, what they were lowered to, what fusion left, and the bytes moved without and with it."""
    rows = []
    for graph in code.graphs:
        before = [group for group in graph.before if group.kind != "nop"]
        unfused, fused = graph.unfused_bytes, graph.fused_bytes
        rows.append((graph.direction, len(graph.nodes), len(before), len(graph.kernels), unfused, fused))
    columns = ["graph", "nodes", "entries before fusion", "kernels", "bytes unfused", "bytes fused"]
    return Table(columns, rows, caption=str(code.provenance))


def boundaries(graph: InductorGraph) -> Table:
    """One row for each place at which a kernel hands a buffer to another: why the two are not one."""
    names = {part: kernel.name for kernel in graph.kernels for part in kernel.parts}
    rows = [
        (Code(shortened(names[b.first.parts[0]])), Code(shortened(names[b.second.parts[0]])), b.reason)
        for b in graph.boundaries
        if b.first.parts[0] in names and b.second.parts[0] in names
    ]
    return Table(["writes", "reads", "why they are two kernels"], rows)


def kernel_code(kernel: Kernel, line: Line | None = None, title: str | None = None) -> Code:
    """A kernel without its header; what computes ``line`` is marked, if the kernel tells."""
    language = "cpp" if kernel.language == "cpp" else "python"
    return Code(kernel.body, language, title or f"`{kernel.name}`", kernel.computing(line) if line else ())


def post_grad(graph: InductorGraph) -> Code:
    """The graph that Inductor received, as readable Python."""
    lines_ = [line for line in readable(graph.code).splitlines() if line.strip() and "No stacktrace" not in line]
    body = [line.removeprefix("    ") for line in lines_ if not line.startswith("class ")]
    return Code("\n".join(body))


def operations(ops: Iterable[str]) -> str:
    """Operations by their short names, each with its count: ``add ×2, gelu``."""
    counts = Counter(re.sub(r"^(aten|prims|prim)\.|\.\w+$", "", op) for op in ops)
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def lines(found: Iterable[Line]) -> str:
    """Places, one below the other."""
    return "\n".join(map(str, found))


def short(kernel: Kernel) -> str:
    """A kernel's name as a table can hold it."""
    return shortened(kernel.name)


def shortened(name: str) -> str:
    """``triton_per_fused_add_native_layer_norm_1`` without what every name has; a long middle is left out."""
    name = re.sub(r"^(extern_kernels|torch\.ops\.aten|aten)\.|\.default$", "", name).removeprefix("triton_")
    return name if len(name) <= 36 else f"{name[:24]}…{name[-11:]}"


def _points(space: tuple[int | str, ...]) -> str:
    return str(space[0]) if space else ""
