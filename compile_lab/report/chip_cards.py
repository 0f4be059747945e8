"""The cards on the chip: its kernels, and autocast. Pure functions of what was captured."""

from collections import Counter

from ..dynamo.tracing import DynamoTrace
from ..inductor.records import EXTERN, Kernel
from ..inductor.traffic import generated_traffic
from ..page.units import with_unit
from ..precision.casts import cast_kernels
from .advice import cure_of
from .captured import Captured, PartFailed
from .cards import CardCode, CardFigure, CardPart, CardTable, CardText, ReportCard
from .tries import OF_A_DTYPE

MOST_LINES = 4
MOST_BOUNDARIES = 12
MIXED = (
    "make the tensor in its partner's dtype, as in `torch.zeros(…, dtype=h.dtype)` or `.to(h.dtype)`; or leave the "
    'line out of autocast: `with torch.autocast("cuda", enabled=False)`'
)
LEFT_OUT = (
    'leave the line out of autocast and hand it float32: `with torch.autocast("cuda", enabled=False)`, and `.float()` '
    "where its inputs may be bfloat16"
)
DIRECTIONS = ("forward", "backward")
ON_A_GPU = "On a GPU your step raises this, eagerly, too:"
RAN = (
    "Compiled for this machine's CPU, your step runs, forward and backward: what failed is this report's view of it, "
    "not the step"
)


def kernels_card(found: Captured) -> ReportCard:
    """How many kernels run, what they move, which lines each holds, what it takes of the chip."""
    code = found.code
    if not code.graphs:
        verdict = "No graph was captured, so Inductor wrote nothing: all of the step runs eagerly."
        return ReportCard("kernels", f"Kernels for a virtual {code.chip}", verdict, "bad")
    moved = generated_traffic(code)
    rows = [
        (each, len(moved.of(each)), sum(k.kind == "matmul" for k in moved.of(each)), moved.nbytes(each))
        for each in DIRECTIONS
    ]
    launches, total = sum(row[1] for row in rows), sum(row[3] for row in rows)
    verdict = (
        f"{launches} launches on a virtual {code.chip}: {len(code.written)} kernels written by Inductor, the rest a "
        f"library's; {with_unit(total)} go through memory."
    )
    severity, todo = "good", []
    if code.trouble or (found.compiled and found.compiled.raised):
        stopped = f"Only a part of the step could be compiled for a virtual {code.chip}: {''.join(code.trouble[:1])}"
        verdict, severity = whose(found, "code", stopped)
        todo = [CardText(f"**What to do:** {cure_of(verdict)}.")]
    parts: list[CardPart] = [
        *todo,
        CardTable(("", "launches", "matmuls", "bytes read and written"), tuple(rows)),
        _written(found),
        *([] if "registers" not in found.parts else [_registers_text(found)]),
        _boundaries(found),
    ]
    listings = sorted(code.written, key=lambda kernel: -kernel.nbytes)
    parts += [CardCode(f"{k.name}, {k.direction}, {with_unit(k.nbytes)}", k.body) for k in listings]
    figures = (
        CardFigure("launches", launches),
        CardFigure("kernels written", len(code.written)),
        CardFigure("read and written by kernels", total, "bytes"),
    )
    return ReportCard("kernels", f"Kernels for a virtual {code.chip}", verdict, severity, tuple(parts), figures)


def whose(found: Captured, part: str, message: str) -> tuple[str, str]:
    """What failed, in a sentence, and how bad that is: it is the step's own, if a GPU or torch on this machine would
    say so, too; else the report's. ``part`` is what failed, and ``message`` how."""
    if part in ("casts", "code") and (where := found.on_two_devices):
        return f"{ON_A_GPU} {where}", "bad"
    trace = found.parts.get("trace")
    if part == "graphs" and isinstance(trace, DynamoTrace) and not trace.graphs:
        return "No graph was captured, so AOTAutograd was handed none: all of the step runs eagerly.", "bad"
    if found.compiled and found.compiled.raised:
        return f"Compiled, your step raises {found.compiled.raised}", "bad"
    return f"{message}. {RAN}" if found.compiled else message, "failed"


def _written(found: Captured) -> CardTable:
    """One row a kernel that Inductor wrote, those that move most first."""
    launched = Counter(kernel.source for kernel in found.code.kernels)
    taken = found.parts.get("registers")
    taken = taken if isinstance(taken, dict) else {}
    rows = []
    for kernel in sorted(found.code.written, key=lambda kernel: -kernel.nbytes):
        known = taken.get(kernel.name)
        sizes = (known.registers, known.spills) if known else (None, None)
        lines = _lines(kernel)
        rows.append((kernel.name, kernel.direction, launched[kernel.source], kernel.nbytes, *sizes, lines))
    columns = ("kernel", "", "launches", "bytes each", "registers a thread", "bytes spilled", "lines that it holds")
    return CardTable(columns, tuple(rows))


def _lines(kernel: Kernel) -> str:
    said = [f"{line}: {line.text}" for line in kernel.lines[:MOST_LINES]]
    more = len(kernel.lines) - MOST_LINES
    return "\n".join([*said, *([f"and {more} more"] if more > 0 else [])])


def _registers_text(found: Captured) -> CardText:
    try:
        count = len(found.registers)
    except PartFailed as error:
        return CardText(f"Registers are not known: {error.why}. {error.todo}.")
    return CardText(f"Registers and spills are those of Triton's own compiler, for the {count} that move most bytes.")


def _boundaries(found: Captured) -> CardTable:
    """Between which kernels fusion stopped, and why: the reasons, most frequent first."""
    reasons = Counter(
        boundary.reason
        for graph in found.code.graphs
        for boundary in graph.boundaries
        if EXTERN not in (boundary.first.kind, boundary.second.kind)
    ).most_common(MOST_BOUNDARIES)
    return CardTable(("why fusion stopped", "times"), tuple(reasons), folded="Where fusion stopped, and why")


def casts_card(found: Captured) -> ReportCard:
    """What bf16 autocast would cast, and which operations stay in fp32."""
    trace, raises = found.casts.trace, found.casts.raises
    cure = CardText(f"**What to do:** {MIXED if OF_A_DTYPE.search(raises) else LEFT_OUT}.")
    if trace is None:
        said = f"Under bf16 autocast the step raises {raises}. Without it, the same step runs."
        return ReportCard("casts", "Casts under autocast", said, "bad", (cure,))
    counts = trace.cast_counts()
    ran = Counter((op.op, "fp32" in op.outputs) for op in trace.ops if op.computes and op.direction == "forward")
    kept = {op for (op, wide), _ in ran.items() if wide}
    heavy = Counter("fp32" if "fp32" in op.inputs else "bf16" for op in trace.ops if op.kind == "matmul")
    wide = f"{heavy['fp32']} of {sum(heavy.values())} matmuls stay in fp32"
    of_parameters = counts.get("parameter", 0)
    verdict = f"Under bf16 autocast a step makes {len(trace.casts)} casts, {of_parameters} of parameters; {wide}."
    rows = tuple((what, count) for what, count in sorted(counts.items(), key=lambda each: -each[1]))
    runs = tuple((op, count, "yes" if wide else "no") for (op, wide), count in ran.most_common(30))
    parts: list[CardPart] = [
        CardTable(("what is cast", "casts in a step"), rows),
        CardTable(
            ("operation", "times", "writes fp32"), runs, folded=f"The forward's operations: {len(kept)} write fp32"
        ),
        CardText(_fused(found)),
    ]
    severity = "look" if heavy["fp32"] and heavy["fp32"] == sum(heavy.values()) else "good"
    if raises:
        severity, verdict = "bad", f"Under bf16 autocast the step raises {raises}. {verdict}"
        parts.insert(0, cure)
    figures = (CardFigure("casts", len(trace.casts)), CardFigure("matmuls in fp32", heavy["fp32"]))
    return ReportCard("casts", "Casts under autocast", verdict, severity, tuple(parts), figures)


def _fused(found: Captured) -> str:
    try:
        made = cast_kernels(found.code.graphs)
    except PartFailed:
        return "Decided by the dispatcher of a GPU, in eager code; compiled, most casts are fused into other kernels."
    if not made.casts:
        return "The step as you handed it over casts nothing. Compiled under autocast, most casts would share a kernel."
    return f"As you handed it over, compiled: {made.casts} casts, {made.fused} of them fused with other work."
