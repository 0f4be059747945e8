"""An assembly as a reader sees it: what each line became, the code of a stage with a line's part marked, resources."""

import re
from collections.abc import Mapping, Sequence

from compile_lab.page.figures import Figure, Series, bars, lines
from compile_lab.page.tables import Code, Table
from compile_lab.virtual_gpu.assembly import Assembly

MAPPED = ("ttir", "ttgir", "ptx", "sass")
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


def became(assembly: Assembly) -> Table:
    """One row a line of the source: how many lines of each stage came from it."""
    stages = [stage for stage in MAPPED if stage in assembly.lines]
    rows = [
        (Code(text), *(len(assembly.lines[stage].get(line, ())) for stage in stages))
        for text, line in statements(assembly).items()
    ]
    return Table(["Triton", *map(str.upper, stages)], rows, caption=f"{assembly.kernel}, {assembly.config}")


def listing(assembly: Assembly, stage: str, line: int | None = None, named: str = NAMED) -> Code:
    """The code of a stage; with a ``line`` of the source, only what came from it.

    Of a long one the lines around the first that has the pattern ``named``, and how many are left out on either side.
    """
    texts = (assembly.code(stage) or "").splitlines()
    numbers = range(1, len(texts) + 1) if line is None else assembly.lines[stage].get(line, ())
    shown = [texts[number - 1].split("//")[0].strip() for number in numbers]
    if len(shown) > LONGEST:
        at = next((at for at, text in enumerate(shown) if re.search(named, text)), 0)
        first = min(max(0, at - LONGEST // 3), len(shown) - LONGEST)
        after = len(shown) - first - LONGEST
        above, below = ([f"… {count} more"] if count else [] for count in (first, after))
        shown = [*above, *shown[first : first + LONGEST], *below]
    return Code("\n".join(shown) or "(nothing: it is folded into other lines)", "text", title=stage.upper())


def registers(series: Mapping[str, Sequence[Assembly]], caption: str = "") -> Figure:
    """Registers a thread against the warps that share a row, a line a kernel."""
    drawn = [
        Series(name, [one.config.num_warps for one in many], [one.registers or 0 for one in many])
        for name, many in series.items()
    ]
    said = "; ".join(f"{one.name}: {', '.join(map(str, one.values))}" for one in drawn)
    return lines(
        drawn,
        x_title="warps that share a row",
        y_title="registers a thread",
        alt=f"Registers a thread for more and more warps. {said}.",
        caption=caption,
        log_x=True,
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


def operations(assemblies: Mapping[str, Assembly], opcodes: Mapping[str, str], elements: Mapping[str, int]) -> Figure:
    """How often each operation is executed for one element: its instructions by the elements that a thread holds.

    ``opcodes`` names what is counted: opcode to words. ``elements``: of each assembly, the elements a thread holds.
    """
    names = [f"{words} ({opcode})" for opcode, words in opcodes.items()]
    series = [
        Series(name, names, [one.count(opcode) / elements[name] for opcode in opcodes])
        for name, one in assemblies.items()
    ]
    return bars(
        series,
        value_title="instructions an element",
        alt="Instructions of each kind that a thread executes for one element: "
        + "; ".join(f"{one.name}: {', '.join(f'{value:g}' for value in one.values)}" for one in series),
        caption="Counted in the machine code",
    )
