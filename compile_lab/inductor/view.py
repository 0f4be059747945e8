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
from .records import EXTERN, InductorGraph, Kernel, comparable
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


def kernel_code(kernel: Kernel, line: Line | None = None, title: str | None = None) -> Code:
    """A kernel without its header; what computes ``line`` is marked, if the kernel tells."""
    language = "cpp" if kernel.language == "cpp" else "python"
    return Code(kernel.body, language, title or f"`{kernel.name}`", kernel.computing(line) if line else ())


def post_grad(graph: InductorGraph) -> Code:
    """The graph that Inductor received, as readable Python."""
    lines_ = [line for line in readable(graph.code).splitlines() if line.strip() and "No stacktrace" not in line]
    body = [line.removeprefix("    ") for line in lines_ if not line.startswith("class ")]
    return Code("\n".join(body))


def tilings(code: GeneratedCode) -> Table:
    """One row a Triton kernel: its line, its kind, the sizes it loops over, and the blocks it walks them in."""
    rows = [
        (
            Code("\n".join(line.text for line in kernel.lines)),
            _KINDS.get(kernel.name.split("_")[1], "other"),
            ", ".join(
                f"{axis} = {int(size):,}" for axis, size in re.findall(r"([a-z0-9]+?)_?numel = (\d+)", kernel.body)
            ),
            ", ".join(_blocks(kernel.body)),
        )
        for kernel in code.kernels
        if kernel.language == "triton"
    ]
    return Table(["line", "kind of kernel", "sizes", "blocks"], rows, caption=evidence(code))


_KINDS = {
    "poi": "pointwise",
    "per": "reduction in one block",
    "red": "reduction in a loop",
    "tem": "template (matmul)",
}


def _blocks(body: str) -> list[str]:
    """Block sizes: those that are fixed in the code with their number, the others as left to the launch."""
    fixed = re.findall(r"(\w*BLOCK\w*)\s*: tl\.constexpr = (\d+)", body)
    return [*re.findall(r"(\w*BLOCK) : tl\.constexpr[,)]", body), *(f"{name} = {size}" for name, size in fixed)]


def differences(code: GeneratedCode, other: GeneratedCode) -> Table:
    """What differs between the kernels of two chips: lines of code, and what is recorded about the device."""
    rows: list[tuple[str, str, str]] = []
    for kernel, counterpart in zip(code.written, other.written, strict=False):
        ours, theirs = kernel.body.split("\n"), counterpart.body.split("\n")
        rows += [(shortened(kernel.name), a.strip(), b.strip()) for a, b in zip(ours, theirs, strict=False) if a != b]
    mine, yours = (_device(each.written[0].source) for each in (code, other))
    rows += [
        ("the device", f"{name}={mine[name]}", f"{name}={yours.get(name)}")
        for name in mine
        if mine[name] != yours.get(name)
    ]
    return Table(["where", str(code.chip), str(other.chip)], [(a, Code(b), Code(c)) for a, b, c in rows])


def changed(kernel: Kernel, other: GeneratedCode) -> Code | None:
    """The lines of a kernel that its counterpart of another chip does not have, marked, each with one around it.

    None if the counterpart has them all.
    """
    lines = kernel.body.split("\n")
    theirs = {line for each in other.written if each.name == kernel.name for line in each.body.split("\n")}
    new = [at for at, line in enumerate(lines) if line not in theirs]
    near = sorted({at + step for at in new for step in (-1, 0, 1) if 0 <= at + step < len(lines)})
    marks = [number for number, at in enumerate(near, 1) if at in new]
    return Code("\n".join(lines[at] for at in near), title=f"`{kernel.name}`", mark=marks) if marks else None


def _device(source: str) -> dict[str, str]:
    match = re.search(r"'device': DeviceProperties\((.*?)\)", source)
    return dict(re.findall(r"(\w+)=([\w']+)", match[1])) if match else {}


def beside_recorded(code: GeneratedCode, recorded: Iterable[Kernel], source: object) -> Table:
    """Kernels of one torch beside those of another, by name: how many agree in name, in body, and header included."""
    generated, stored = (
        {(kernel.direction, kernel.name): kernel for kernel in kernels if kernel.language != EXTERN}
        for kernels in (code.kernels, recorded)
    )
    rows: list[list[Cell]] = []
    for direction in dict.fromkeys(direction for direction, _ in (*generated, *stored)):
        ours, theirs = ({k: v for k, v in side.items() if k[0] == direction} for side in (generated, stored))
        both = [(ours[name], theirs[name]) for name in ours if name in theirs]
        same_body = sum(a.body == b.body for a, b in both)
        same = sum(comparable(a.source) == comparable(b.source) for a, b in both)
        rows.append([direction, len(ours), len(theirs), len(both), same_body, same])
    columns = ["", "here", "recorded", "same name", "same body", "same source"]
    return Table(columns, rows, f"Kernels here: {evidence(code)}. Recorded: {source}")


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
    """One row a way and direction: launches, bytes with and without the products, and bytes of intermediates."""
    rows: list[list[Cell]] = []
    for direction in ("forward", "backward"):
        for way, traffic in traffics.items():
            between = sum(each.nbytes for each in traffic.in_role("intermediate", direction))
            kept = sum(each.nbytes for each in traffic.in_role("saved", direction)) if direction == "forward" else None
            sizes = [traffic.nbytes(direction), traffic.nbytes(direction, matmuls=False), between, kept]
            rows.append([direction, way, len(traffic.of(direction)), *(n and round(n / MB, 1) for n in sizes)])
    columns = ["", "way", "launches", "MB moved", "outside products", "MB intermediate", "MB saved"]
    return Table(columns, rows, align="llrrrrr")
