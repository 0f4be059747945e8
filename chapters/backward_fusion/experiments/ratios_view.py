"""Eager's time over compiled code's, a row a case on one logarithmic scale with a line at 1×."""

from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted

from .backward_fusion_view import busy_us, change, name_of, outside, speedup, speedup_text, times

WHOLE, UNDECIDED, OUTSIDE = "from start to end", "not told apart: quartiles overlap", "on the GPU, outside the matmuls"
Case = Mapping[str, Any]


def outside_ratio(case: Case) -> float:
    """Eager's GPU time outside the matmuls over compiled code's, of a backward."""
    eager, compiled = (busy_us(case, "backward", way, matmuls=False) for way in ("eager", "compiled"))
    return eager / compiled


def whole(cases: Iterable[Case], provenance: object) -> Drawing:
    """A dot a case: how many times faster the compiled backward is, from start to end."""
    cases = list(cases)
    found = [change(case) for case in cases]
    title = (
        f"Of {len(cases)} compiled backwards {found.count('faster')} are faster than eager's, {found.count('slower')} "
        f"slower, and {found.count('no difference')} not told apart."
    )
    rows = [Row(name_of(case), _whole(case), speedup_text(case, "backward")) for case in cases]
    return _drawn(rows, title, table=times(cases, "backward", provenance), provenance=provenance)


def whole_and_outside(cases: Iterable[Case], copy_gb_per_s: float, provenance: object) -> Drawing:
    """The same, and next to it the GPU's time outside the matmuls, which is all that fusing can change."""
    cases = list(cases)
    ratios = [outside_ratio(case) for case in cases]
    rows = [
        Row(name_of(case), {**_whole(case), OUTSIDE: ratio}, f"{ratio:.2f}×")
        for case, ratio in zip(cases, ratios, strict=True)
    ]
    title = f"Outside the matmuls, compiled code runs at {min(ratios):.2f} to {max(ratios):.2f} times eager's speed."
    return _drawn(rows, title, table=outside(cases, copy_gb_per_s, provenance), provenance=provenance)


def _whole(case: Case) -> dict[str, float]:
    return {UNDECIDED if change(case) == "no difference" else WHOLE: speedup(case, "backward")}


def _drawn(rows: list[Row], title: str, **rest: Any) -> Drawing:
    return dotted(
        rows,
        Axis("eager's time over compiled code's", "×", log=True, low=0.5, until=8, ticks=(0.5, 1, 2, 4, 8)),
        title=title,
        colours={WHOLE: "green", UNDECIDED: "grey", OUTSIDE: "orange"},
        references={"the same time": (1, "grey")},
        **rest,
    )
