"""A kernel's way down to the machine, at a glance: the lines of each stage, in the colour of their line of Triton."""

from collections.abc import Mapping
from typing import Any

from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.virtual_gpu.assembly import Assembly, Config, assemble

from .view import MAPPED, became, statements

COLOURS = ("grey", "sky", "purple", "blue", "green", "vermillion", "orange", "#9A6A3A")
LEFT, RIGHT, ROW, STEP = 150.0, 190.0, 32.0, 50.0
WHOSE = {"TTIR": "a block", "TTGIR": "a block", "PTX": "one thread", "SASS": "one thread"}


def road_of(
    kernel: Any, chip: str, blocks: Mapping[str, int], warps: int, arguments: Mapping[str, str | int]
) -> Drawing:
    """The road of a kernel in one configuration; arguments and errors as those of `assemble`."""
    return road(assemble(kernel, chip, Config(blocks, warps), arguments=arguments))


def road(assembly: Assembly) -> Drawing:
    """One row a stage, as wide as it has lines, and the registers that a thread takes at the end."""
    canvas, named = Canvas(), statements(assembly)
    colours = {line: COLOURS[at % len(COLOURS)] for at, line in enumerate(named.values())}
    rows = {"Triton": dict.fromkeys(colours, 1)}
    for stage in (stage for stage in MAPPED if stage in assembly.lines):
        rows[stage.upper()] = {line: len(assembly.lines[stage].get(line, ())) for line in colours}
    scale = (WIDTH - LEFT - RIGHT) / max(sum(counts.values()) for counts in rows.values())
    for at, (stage, counts) in enumerate(rows.items()):
        _stage(canvas, stage, counts, colours, at * STEP, scale, {line: text for text, line in named.items()})
    said = _registers(canvas, assembly, len(rows) * STEP + 6)
    totals = ", ".join(f"{stage} {sum(counts.values())}" for stage, counts in rows.items())
    return Drawing(
        canvas.svg(),
        f"Lines of each stage of {assembly.kernel}, {assembly.config}: {totals}. {said}",
        f"{assembly.kernel}, {assembly.config}: lines of each stage that come from a line of Triton, on one scale. "
        f"Counted in the compiler's output for a {assembly.chip}; nothing is run",
        table=became(assembly),
        legend=key({text.partition(" = ")[0].partition("(")[0]: colours[line] for text, line in named.items()}),
    )


def _stage(
    canvas: Canvas,
    stage: str,
    counts: Mapping[int, int],
    colours: Mapping[int, str],
    y: float,
    scale: float,
    texts: Mapping[int, str],
) -> None:
    canvas.words(0, y + 23, stage, bold=True)
    canvas.words(70, y + 23, WHOSE.get(stage, "a block"), size=15)
    x = LEFT
    for line, count in counts.items():
        canvas.box(x, y, max(count * scale, 1), ROW, colours[line], title=f"{texts[line]}: {count}")
        x += count * scale
    total = sum(counts.values())
    canvas.words(x + 10, y + 23, f"{total} lines")


def _registers(canvas: Canvas, assembly: Assembly, y: float) -> str:
    """What a thread takes of what an instruction can name; returns the same in words."""
    if assembly.registers is None:
        return ""
    most, width = assembly.chip.registers_per_thread, WIDTH - LEFT - RIGHT
    canvas.words(0, y + 23, "registers", bold=True)
    canvas.box(LEFT, y, width, ROW, "ink", dashed=True)
    canvas.box(LEFT, y, width * assembly.registers / most, ROW, "blue", str(assembly.registers))
    canvas.words(LEFT + width + 10, y + 23, f"of {most}")
    held = assembly.occupancy
    warps = f"; {held.warps} of {held.most_warps} warps fit on a multiprocessor" if held else ""
    return f"A thread takes {assembly.registers} of {most} registers{warps}."
