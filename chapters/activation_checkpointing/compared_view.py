"""Strategies side by side: what each costs in time and gives in memory, and in which blocks something is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compile_lab.checkpointing.cost import Cost
from compile_lab.doors import check_whole, door
from compile_lab.page.canvas import DIGIT, Canvas
from compile_lab.page.figures import Drawing
from compile_lab.page.units import unit_of, with_unit

from . import view

LEFT, TOP, WIDE, HIGH = 70, 30, 880, 280

WAYS = (("start", 13, 6), ("end", -13, 6), ("middle", 0, -15), ("middle", 0, 27))
WAYS += (("start", 9, 24), ("end", -9, 24), ("start", 9, -12), ("end", -9, -12))
"""Words at a dot: the end that is near it, and how far right and down of it their base line begins."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of what has been drawn."""


@door
def tradeoff(costs: Iterable[Cost], caption: str = "", provenance: object = None) -> Drawing:
    """Each strategy as a dot: its peak to the right, its time upwards. Both axes begin at 0; down and left is better.

    Raises ValueError where there is nothing to draw.

    >>> from chapters.activation_checkpointing.compared_view import tradeoff
    >>> from chapters.activation_checkpointing.experiments.checkpointing import recorded
    >>> from compile_lab import recordings
    >>> tradeoff(recorded(recordings.load("checkpointing").result).values()).alt
    '14 strategies by peak and time. The lowest peak has every layer, 2.61 GB and 115 ms; the quickest is
    budget 1, 15.3 GB and 77 ms.'
    """
    costs = list(costs)
    if not costs:
        raise ValueError("nothing to draw: give at least one Cost")
    most, ms = (1.12 * max(getattr(each, field) for each in costs) for field in ("peak_nbytes", "time_ms"))
    canvas, ground = Canvas(), TOP + HIGH
    dots = {each: (LEFT + WIDE * each.peak_nbytes / most, ground - HIGH * each.time_ms / ms) for each in costs}
    canvas.line([(LEFT, TOP), (LEFT, ground)])
    for time in _ticks(ms):
        canvas.words(LEFT - 10, ground - HIGH * time / ms + 6, f"{time:g}", anchor="end")
    canvas.words(0, TOP - 8, "ms a step")
    unit, size = unit_of(most)
    ticks = [(tick * size / most, f"{tick:g}") for tick in _ticks(most / size)]
    canvas.axis(LEFT, ground, WIDE, ticks, f"{unit} at the peak")
    for cost, (x, y) in dots.items():
        colour = "orange" if cost.strategy.compiled or cost.strategy.budget is not None else "blue"
        canvas.box(x - 7, y - 7, 14, 14, colour)
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in dots.values()]
    for cost, (x, y) in dots.items():
        name = cost.strategy.name
        anchor, x, y, box = _beside(x, y, len(name) * 18 * DIGIT, taken)
        canvas.words(x, y, name, anchor=anchor)
        taken.append(box)
    least, quickest = (min(costs, key=lambda each: getattr(each, field)) for field in ("peak_nbytes", "time_ms"))
    alt = (
        f"{len(costs)} strategies by peak and time. The lowest peak has {least.strategy.name}, "
        f"{with_unit(least.peak_nbytes)} and {least.time_ms:.0f} ms; the quickest is {quickest.strategy.name}, "
        f"{with_unit(quickest.peak_nbytes)} and {quickest.time_ms:.0f} ms."
    )
    return Drawing(canvas.svg(), alt, caption, view.costs(costs), provenance, "Blue: eager. Orange: compiled.")


def _beside(x: float, y: float, long: float, taken: Sequence[Box]) -> tuple[str, float, float, Box]:
    """Where words so long stand at a dot, and what they cover: the first of `WAYS` that is free, or else the first."""
    places = []
    for anchor, across, down in WAYS:
        base = y + down
        left = x + across - {"start": 0, "middle": long / 2, "end": long}[anchor]
        box = (left, base - 15, left + long, base + 3)
        places.append((anchor, x + across, base, box))
        if left >= LEFT and left + long <= 1000 and not any(_meet(box, other) for other in taken):
            return places[-1]
    return places[0]


def _meet(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def _ticks(most: float) -> list[float]:
    """From 0, at most seven, at round numbers."""
    step = next(end * 10.0**power for power in range(-3, 9) for end in (1, 2, 5) if most < 7 * end * 10.0**power)
    return [step * at for at in range(int(most / step) + 1)]


@door
def saved_grid(saved: Mapping[float, Sequence[int]], blocks: int, caption: str = "") -> Drawing:
    """A row a budget, a square a block: full where something large is saved. The longest stretch without is marked.

    Raises ValueError for a block that is not there.

    >>> from chapters.activation_checkpointing.compared_view import saved_grid
    >>> saved_grid({1.0: range(6), 0.5: [0, 4]}, blocks=6).alt
    'Blocks in which something large is saved, by budget. 1: 6 of 6, at most 0 in a row without; 0.5: 2 of 6,
    at most 3 in a row without.'
    """
    check_whole("blocks", blocks)
    canvas, left, row = Canvas(), 170, 40
    wide, told = 690 / blocks, []
    for at, (budget, kept) in enumerate(saved.items()):
        top = 6 + at * row
        canvas.words(0, top + 22, f"budget {budget:g}", bold=True)
        for block in (*kept, *range(blocks)):
            check_whole("a block", block, 0, blocks - 1)
        for block in range(blocks):
            canvas.box(
                left + block * wide, top, wide - 3, 26, "blue" if block in kept else "grey", faint=block not in kept
            )
        start, length = _longest(kept, blocks)
        if length:
            canvas.line(
                [(left + start * wide, top + 31), (left + (start + length) * wide - 3, top + 31)], "vermillion", thick=4
            )
        canvas.words(left + 700, top + 20, f"{length} without")
        told.append(f"{budget:g}: {len(kept)} of {blocks}, at most {length} in a row without")
    alt = f"Blocks in which something large is saved, by budget. {'; '.join(told)}."
    legend = "Blue: something large is saved in this block. Red: the longest stretch without."
    return Drawing(canvas.svg(), alt, caption, legend=legend)


def _longest(kept: Sequence[int], blocks: int) -> tuple[int, int]:
    best = start = length = 0
    for block in range(blocks):
        length = 0 if block in kept else length + 1
        if length > best:
            best, start = length, block - length + 1
    return start, best
