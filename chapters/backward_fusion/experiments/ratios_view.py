"""Eager's time over compiled code's, a row a case on one logarithmic scale with a line at 1×."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

from .backward_fusion_view import busy_us, change, name_of, outside, speedup, times

LEFT, RIGHT, ROW, SIDE = 300.0, 40.0, 30.0, 15.0
TICKS = (0.5, 1, 2, 4, 8)
COLOURS = {"whole": "blue", "undecided": "grey", "outside": "orange"}

Case = Mapping[str, Any]


def outside_ratio(case: Case) -> float:
    """Eager's GPU time outside the matmuls over compiled code's, of a backward."""
    eager, compiled = (busy_us(case, "backward", way, matmuls=False) for way in ("eager", "compiled"))
    return eager / compiled


def whole(cases: Iterable[Case], provenance: object) -> Drawing:
    """One square a case: how many times faster the compiled backward is, from start to end."""
    cases = list(cases)
    return _drawn(
        cases, {"whole": lambda case: speedup(case, "backward")}, times(cases, "backward", provenance), provenance
    )


def whole_and_outside(cases: Iterable[Case], copy_gb_per_s: float, provenance: object) -> Drawing:
    """The same, and next to it the GPU's time outside the matmuls, which is all that fusing can change."""
    cases = list(cases)
    parts = {"whole": lambda case: speedup(case, "backward"), "outside": outside_ratio}
    return _drawn(cases, parts, outside(cases, copy_gb_per_s, provenance), provenance)


def _drawn(
    cases: list[Case], parts: Mapping[str, Callable[[Case], float]], table: Table, provenance: object
) -> Drawing:
    canvas, bottom = Canvas(), 8 + ROW * len(cases)
    for tick in TICKS:
        canvas.line([(_at(tick), 0), (_at(tick), bottom)], "grey", thick=3 if tick == 1 else 1, dashed=tick != 1)
        canvas.words(_at(tick), bottom + 22, f"{tick:g}×", anchor="middle", size=16)
    said = []
    for at, case in enumerate(cases):
        y = 6 + ROW * at
        canvas.words(0, y + 19, name_of(case), size=16)
        for part, ratio in parts.items():
            value = ratio(case)
            undecided = part == "whole" and change(case) == "no difference"
            colour = COLOURS["undecided" if undecided else part]
            words = "not told apart: quartiles overlap" if undecided else f"{value:.2f}×"
            canvas.box(_at(value) - SIDE / 2, y + 6, SIDE, SIDE, colour, title=f"{name_of(case)}, {part}: {words}")
            said.append(f"{name_of(case)}, {part} {words.partition(':')[0]}")
    names = {"from start to end": "blue", "from start to end, quartiles overlap": "grey"}
    names |= {"on the GPU, outside the matmuls": "orange"} if "outside" in parts else {}
    return Drawing(
        canvas.svg(),
        f"Eager's time over compiled code's, backward. {'; '.join(said)}.",
        f"Eager's time over compiled code's: left of the line at 1× compiling lost · {provenance}",
        table=table,
        legend=key(names),
    )


def _at(ratio: float) -> float:
    low, high = math.log(TICKS[0] * 0.85), math.log(TICKS[-1])
    return LEFT + (math.log(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
