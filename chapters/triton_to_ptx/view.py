"""An assembly as a reader sees it: what each line became, the code of a stage with a line's part marked, resources."""

import re
from collections.abc import Mapping, Sequence

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, Row, dotted, lines, segments
from compile_lab.page.tables import Cell, Code, Table
from compile_lab.virtual_gpu.assembly import Assembly

COLOURS = ("blue", "orange", "green", "purple", "vermillion", "sky")
MAPPED = ("ttir", "ttgir", "ptx", "sass")
OTHERS = "the other lines"
LONGEST = 24  # lines of a listing
NAMED = r"shfl|SHFL|ex2\.approx|MUFU|ld\.global|LDG|math\.exp2"
"""What is worth a look in a long listing: the talk among threads, a special function, a load."""


def statements(assembly: Assembly) -> dict[str, int]:
    """The source lines that became code, by their text, in order; of a text that is there twice, with its number."""
    texts = assembly.source.splitlines()
    named: dict[str, int] = {}
    for line in sorted({line for stage in assembly.lines.values() for line in stage}):
        text = texts[line - 1].strip()
        if not text.startswith(("def ", "@")):
            named[f"{text} (line {line})" if text in named else text] = line
    return named


def lines_by_stage(assembly: Assembly) -> Table:
    """One row a line of the source: how many lines of each stage came from it."""
    stages = [stage for stage in MAPPED if stage in assembly.lines]
    rows: list[tuple[Cell, ...]] = [
        (Code(text), *(len(assembly.lines[stage].get(line, ())) for stage in stages))
        for text, line in statements(assembly).items()
    ]
    return Table(["Triton", *map(str.upper, stages)], rows, caption=f"{assembly.kernel}, {assembly.config}")


def listing(assembly: Assembly, stage: str, line: int | None = None) -> Code:
    """The code of a stage; with a ``line`` of the source, only what came from it.

    Of a long one the lines around the first that has the pattern `NAMED`, and how many are left out on either side.
    """
    texts = (assembly.code(stage) or "").splitlines()
    numbers = range(1, len(texts) + 1) if line is None else assembly.lines[stage].get(line, ())
    shown = [texts[number - 1].split("//")[0].strip() for number in numbers]
    if len(shown) > LONGEST:
        at = next((at for at, text in enumerate(shown) if re.search(NAMED, text)), 0)
        first = min(max(0, at - LONGEST // 3), len(shown) - LONGEST)
        after = len(shown) - first - LONGEST
        above, below = ([f"… {count} more"] if count else [] for count in (first, after))
        shown = [*above, *shown[first : first + LONGEST], *below]
    return Code("\n".join(shown) or "(nothing: it is folded into other lines)", "text", title=stage.upper())


def stage_chart(assembly: Assembly) -> Drawing:
    """A kernel's way down to the machine: the lines of each stage, by the line of Triton that they come from.

    The lines of Triton of which most is made have a colour each.
    """
    counts = {
        text.partition(" = ")[0].partition("(")[0]: {
            "Triton": 1,
            **{stage.upper(): len(assembly.lines[stage].get(line, ())) for stage in MAPPED if stage in assembly.lines},
        }
        for text, line in statements(assembly).items()
    }
    large = sorted(counts, key=lambda text: -sum(counts[text].values()))[: len(COLOURS)]
    names = {text: text if text in large else OTHERS for text in counts}
    rows = []
    for stage in next(iter(counts.values())):
        parts: dict[str, float] = {}
        for text, name in names.items():
            parts[name] = parts.get(name, 0) + counts[text][stage]
        rows.append(Row(stage, {name: parts[name] for name in (*(n for n in parts if n != OTHERS), OTHERS)}))
    registers = f", which takes {assembly.registers} of {assembly.chip.registers_per_thread} registers"
    first, last = (sum(row.sums().values()) for row in (rows[0], rows[-1]))
    return segments(
        rows,
        Axis("lines"),
        title=f"{first} lines of Triton become {last} lines of {rows[-1].name}.",
        caption=f"{assembly.kernel}, {assembly.config}. Triton, TTIR and TTGIR are about a block, PTX and SASS about "
        f"one thread{registers if assembly.registers else ''}. Counted in the compiler's output for a {assembly.chip}; "
        "nothing is run",
        colours={**dict(zip((t for t in counts if t in large), COLOURS, strict=False)), OTHERS: "grey"},
        table=lines_by_stage(assembly),
    )


def registers(series: Mapping[str, Sequence[Assembly]], caption: str = "") -> Drawing:
    """Registers a thread against the warps that share a row, a line a kernel."""
    drawn = [
        Line(name, [(one.config.num_warps, one.registers or 0) for one in many], dots=True)
        for name, many in series.items()
    ]
    warps = [at for at, _ in drawn[0].points]
    told = ", ".join(f"{one.series} {one.points[0][1]} and {one.points[-1][1]}" for one in drawn)
    return lines(
        {"": drawn},
        Axis("warps that share a row", log=True, low=warps[0], until=warps[-1], ticks=warps),
        Axis("registers a thread"),
        title=f"Registers of a thread where {warps[0]} warp has a row and where {warps[-1]} share it: {told}.",
        caption=caption,
    )


def resources(assemblies: Sequence[Assembly] | Mapping[str, Assembly], caption: str = "") -> Table:
    """One row an assembly: registers, spills, shared memory, and the warps that a multiprocessor holds."""
    named = assemblies if isinstance(assemblies, Mapping) else {str(one.config): one for one in assemblies}
    rows = []
    for name, one in named.items():
        held = one.occupancy
        warps = None if held is None else f"{held.warps} of {held.most_warps}"
        limit = None if held is None else held.limited_by
        rows.append((name, one.registers, one.spills, one.shared_bytes, warps, limit))
    columns = ["configuration", "registers a thread", "spilled bytes", "shared bytes", "warps held", "limited by"]
    return Table(columns, rows, caption, align="lrrrrl")


def operations(
    assemblies: Mapping[str, Assembly],
    opcodes: Mapping[str, str],
    elements: Mapping[str, int],
    colours: Mapping[str, str] | None = None,
) -> Drawing:
    """How often each operation is executed for one element: its instructions by the elements that a thread holds.

    ``opcodes`` names what is counted: opcode to words. ``elements``: of each assembly, the elements a thread holds.
    """
    counted = {
        f"{words} ({opcode})": {name: one.count(opcode) / elements[name] for name, one in assemblies.items()}
        for opcode, words in opcodes.items()
    }
    rows = [Row(name, parts, "") for name, parts in counted.items()]
    first = ", ".join(f"{name} {value:g}" for name, value in next(iter(counted.values())).items())
    title = f"{next(iter(opcodes.values())).capitalize()} an element: {first}."
    return dotted(rows, Axis("instructions an element"), title=title, colours=colours)
