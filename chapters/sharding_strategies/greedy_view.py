"""Operator by operator against the best plan, as a reader sees it: two bars for each layout."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.units import with_unit

from .greedy import LEAVE, ChainLayout

_ROW, _LEFT = 54, 250


@door
def against_best(
    rows: Sequence[ChainLayout], caption: str = "", provenance: object | None = None, most: int = 12
) -> Drawing:
    """The layouts in which choosing operator by operator sends more than the best plan, worst first, with that plan.

    Raises ValueError if there is none.

    >>> from chapters.sharding_strategies.greedy import ChainLayout
    >>> from chapters.sharding_strategies.greedy_view import against_best
    >>> against_best([ChainLayout(("S(0)", "S(0)", "R"), 98_304, 49_152, ("S(0)", "R", "R", ""))]).alt
    'In 1 of 1 layouts, the worst first. S(0), S(0), R: 98,304 against 49,152 bytes.'
    """
    lost = sorted((row for row in rows if row.greedy_nbytes > row.best_nbytes), key=lambda row: -row.ratio)
    worse = lost[:most]
    if not worse:
        raise ValueError("in none of the layouts does it send more, so there is nothing to draw; say so in words")
    longest = max(row.greedy_nbytes for row in worse)
    canvas = Canvas()
    wide = canvas.width - _LEFT - 400
    canvas.words(0, 18, "x, a, b are", bold=True)
    canvas.words(_LEFT, 18, "a rank sends", bold=True)
    canvas.words(canvas.width, 18, "best plan: x, a, b go first to", anchor="end", bold=True)
    for at, row in enumerate(worse):
        y = 34 + at * _ROW
        canvas.words(0, y + 26, ", ".join(row.layout), code=True)
        for nbytes, top, colour, name in (
            (row.greedy_nbytes, y, "vermillion", "operator by operator"),
            (row.best_nbytes, y + 20, "green", "the best plan"),
        ):
            canvas.box(_LEFT, top, wide * nbytes / longest, 17, colour, title=f"{name}: {nbytes:,} bytes")
            times = f", {row.ratio:.3g} ×" if colour == "vermillion" else ""
            canvas.words(_LEFT + wide * nbytes / longest + 6, top + 15, with_unit(nbytes) + times, size=15)
        canvas.words(canvas.width, y + 26, _plan(row), anchor="end", code=True, size=16)
    alt = f"In {len(lost)} of {len(rows)} layouts, the worst first. " + " ".join(
        f"{', '.join(row.layout)}: {row.greedy_nbytes:,} against {row.best_nbytes:,} bytes." for row in worse
    )
    legend = key({"DTensor, operator by operator": "vermillion", "the best plan": "green"})
    return Drawing(canvas.svg(), alt, caption, None, provenance, legend)


def _plan(row: ChainLayout) -> str:
    middle = "" if row.plan[3] == LEAVE else f"; middle {row.plan[3]}"
    return ", ".join(row.plan[:3]) + middle
