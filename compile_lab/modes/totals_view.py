"""What a mode costs and gives in one picture: the time for compiling and so many calls, one line a mode.

Both axes are logarithmic, and the same for every workload. A line starts where compiling costs, and ends where each
call gives; where it crosses eager's, compiling has paid.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.units import number
from .cost import MODES, Comparison
from .view import gain, pays_after, table, told_apart

COLOURS = dict(zip(MODES, ("ink", "blue", "orange", "purple", "green"), strict=True))
SHORT = {"max-autotune-no-cudagraphs": "max-autotune-no-cg"}
CALLS = 1e1, 1e7
DECADES = {1: "10", 2: "100", 3: "1,000", 4: "10⁴", 5: "10⁵", 6: "10⁶", 7: "10⁷"}
TIMES = {0.1: "0.1×", 0.2: "0.2×", 0.5: "0.5×", 1: "1×", 2: "2×", 5: "5×", 10: "10×"}
SECONDS = {1e-2: "10 ms", 1: "1 s", 60: "1 min", 3600: "1 h", 86_400: "1 day", 864_000: "10 days"}
SCALES = {"compared with eager": TIMES, "in seconds": SECONDS}
SIZE, POINTS = 18, 24


@dataclass(frozen=True)
class Field:
    """Where a plot stands on its canvas, and what its upright scale is."""

    x: float
    y: float
    width: float
    height: float
    scale: Mapping[float, str]

    def across(self, calls: float) -> float:
        """The place of so many calls."""
        return self.x + self.width * _share(calls, *CALLS)

    def down(self, value: float) -> float:
        """The place of a value of the scale."""
        return self.y + self.height * (1 - _share(value, min(self.scale), max(self.scale)))

    def line(self, comparison: Comparison, mode: str, start: str) -> list[tuple[float, float]]:
        """A mode's line, from where it comes into the field."""
        points = []
        for step in range(POINTS + 1):
            calls = CALLS[0] * (CALLS[1] / CALLS[0]) ** (step / POINTS)
            value = self.value(comparison, mode, calls, start)
            if min(self.scale) <= value <= max(self.scale):
                points.append((self.across(calls), self.down(value)))
        bent = [
            here
            for before, here, then in zip(points, points[1:], points[2:], strict=False)
            if abs(before[1] - 2 * here[1] + then[1]) > 0.05
        ]
        return [*points[:1], *bent, *points[1:][-1:]]

    def value(self, comparison: Comparison, mode: str, calls: float, start: str) -> float:
        """What the line shows: seconds for compiling and so many calls, or how many times eager's they are."""
        total = comparison.costs[mode].total_s(calls, start)
        return total if self.scale is SECONDS else total / comparison.eager.total_s(calls)


def totals(comparison: Comparison, start: str = "cold", shown: str = "compared with eager") -> Drawing:
    """Time for compiling and calling together against the number of calls, with break-evens and the best mode marked.

    ``start`` is "cold" or "warm", ``shown`` one of `SCALES`; ValueError for others.
    """
    _check(start, shown)
    canvas = Canvas(size=SIZE)
    field = Field(86, 66, 654, 310, SCALES[shown])
    _plot(canvas, field, comparison, start)
    _ends(canvas, field, comparison, start)
    caption = f"{comparison.name}: {comparison.what}; compiling {start} and calling together, {shown}"
    if comparison.limits:
        caption += f". max-autotune's search was limited: {comparison.limits}"
    legend = key({comparison.named(mode): COLOURS[mode] for mode in comparison.started(start)})
    alt = alternative(comparison, start)
    return Drawing(canvas.svg(), alt, caption, table(comparison, start), comparison.provenance, legend)


def opening(found: Mapping[str, Comparison]) -> Drawing:
    """A small input and a training step: GPT-2 twice."""
    small, large = found["GPT-2 inference, batch 1"], found["GPT-2 training"]
    return side_by_side({"One sequence, inference": small, "A training step": large})


def side_by_side(comparisons: Mapping[str, Comparison], start: str = "cold") -> Drawing:
    """The same of a few workloads side by side, compared with eager; the names in ``comparisons`` stand above them."""
    canvas = Canvas(size=20)
    gap = 92
    width = (canvas.width - gap * len(comparisons)) / len(comparisons)
    for index, (name, comparison) in enumerate(comparisons.items()):
        field = Field(gap * 0.72 + index * (width + gap), 40, width, 250, TIMES)
        canvas.words(field.x, 22, name, bold=True)
        _plot(canvas, field, comparison, start, marks=False, every=2)
    some = next(iter(comparisons.values()))
    alt = " ".join(alternative(comparison, start) for comparison in comparisons.values())
    caption = f"Time for compiling, {start}, and so many calls, as a multiple of eager's; below 1× compiling has paid"
    limited = [f"{name}: {one.limits}" for name, one in comparisons.items() if one.limits]
    if limited:
        caption += f"; max-autotune's search was limited for {'; '.join(limited)}"
    shown = {mode for comparison in comparisons.values() for mode in comparison.started(start)}
    legend = key({mode: COLOURS[mode] for mode in MODES if mode in shown})
    return Drawing(canvas.svg(), alt, caption, provenance=some.provenance, legend=legend)


def panel(comparison: Comparison, start: str, shown: str) -> list[str | Drawing]:
    """What a reader explores: a sentence and the picture; otherwise as `totals`."""
    return [noticed(comparison, start), totals(comparison, start, shown)]


def noticed(comparison: Comparison, start: str = "cold") -> str:
    """One sentence: which mode is best for how many calls."""
    best = [(comparison.named(mode), begin, end) for mode, begin, end in _best(comparison, start)]
    said = [f"**{best[0][0]}** up to {_about(best[0][2])} calls"] if len(best) > 1 else [f"**{best[0][0]}**"]
    said += [f"then **{mode}**" + (f" up to {_about(end)}" if end < CALLS[1] else "") for mode, _, end in best[1:]]
    return f"Least time in all: {', '.join(said)}. A line's start is what compiling costs, its end what a call gives."


def alternative(comparison: Comparison, start: str) -> str:
    """The picture in words."""
    parts = []
    for mode, cost in comparison.started(start).items():
        if mode != "eager":
            pays, ratio = pays_after(cost, comparison.eager, start), comparison.speedup(mode) or 0
            when = "never pays" if pays == "never" else f"pays after {pays} calls"
            ends = f"{when} and ends at {ratio:.2f} times eager's speed"
            clear = told_apart(cost, comparison.eager)
            parts.append(f"{comparison.named(mode)} {ends if clear else 'is not told apart from eager'}")
    return f"{comparison.name}, {start}, time against calls: {'; '.join(parts)}."


def _plot(canvas: Canvas, field: Field, comparison: Comparison, start: str, marks: bool = True, every: int = 1) -> None:
    for value, text in field.scale.items():
        y = field.down(value)
        canvas.line([(field.x, y), (field.x + field.width, y)], "#8883", thick=1)
        canvas.words(field.x - 8, y + 6, text, anchor="end")
    for mode in reversed(comparison.started(start)):
        if points := field.line(comparison, mode, start):
            canvas.line(points, COLOURS[mode], thick=3, dashed=mode == "max-autotune-no-cudagraphs")
    if marks:
        _break_evens(canvas, field, comparison, start)
    _band(canvas, field, comparison, start)
    ticks = [(_share(10**at, *CALLS), text) for at, text in DECADES.items() if at % every == 1 % every]
    canvas.axis(field.x, field.y + field.height + 36, field.width, ticks, "calls")


def _break_evens(canvas: Canvas, field: Field, comparison: Comparison, start: str) -> None:
    """A square where a mode's line crosses eager's, and after how many calls that is."""
    crossings = {mode: cost.break_even(comparison.eager, start) for mode, cost in comparison.started(start).items()}
    rows = [-math.inf] * 3
    canvas.words(field.x, field.y - 44, "pays after … calls:", size=16)
    for mode, calls in sorted(crossings.items(), key=lambda item: item[1] or 0):
        apart = told_apart(comparison.costs[mode], comparison.eager)
        if calls is None or not apart or not CALLS[0] <= calls <= CALLS[1]:
            continue
        x, y = field.across(calls), field.down(field.value(comparison, "eager", calls, start))
        row = min(range(len(rows)), key=lambda at: (rows[at] > x - 70, at))
        rows[row] = x
        top = field.y - 8 - 18 * row
        canvas.line([(x, y), (x, top + 3)], COLOURS[mode], thick=1, dashed=True)
        canvas.box(x - 6, y - 6, 12, 12, COLOURS[mode], title=f"{mode} has paid after {calls:,} calls")
        canvas.words(x, top, number(calls), anchor="middle", size=16)


def _band(canvas: Canvas, field: Field, comparison: Comparison, start: str) -> None:
    """Below the lines: which mode takes the least time for so many calls."""
    for mode, first, end in _best(comparison, start):
        x, wide = field.across(first), field.across(end) - field.across(first)
        colour = "grey" if COLOURS[mode] == "ink" else COLOURS[mode]
        canvas.box(x, field.y + field.height + 6, wide - 2, 26, colour, mode, title=f"least time in all: {mode}")


def _ends(canvas: Canvas, field: Field, comparison: Comparison, start: str) -> None:
    """Each line's name at its end, with what a call gives; those that end together one under the other."""
    ends = {}
    for mode in comparison.started(start):
        value = field.value(comparison, mode, CALLS[1], start)
        ends[mode] = field.down(min(max(value, min(field.scale)), max(field.scale)))
    places, bottom = {}, -math.inf
    for mode, y in sorted(ends.items(), key=lambda item: item[1]):
        places[mode] = bottom = max(y, bottom + 21)
    over = max(0.0, bottom - (field.y + field.height))
    for mode, y in places.items():
        ratio = gain(comparison.costs[mode], comparison.eager) or ""
        text = f"{SHORT.get(mode, mode)} {'≈ eager' if 'not' in ratio else ratio}" if mode != "eager" else "eager"
        canvas.box(field.x + field.width + 8, y - over - 6, 12, 12, COLOURS[mode])
        canvas.words(field.x + field.width + 26, y - over + 6, text, size=16)


def _best(comparison: Comparison, start: str) -> Iterator[tuple[str, float, float]]:
    """The best mode from so many calls to so many, over all of the scale."""
    first, best = CALLS[0], comparison.best_after(int(CALLS[0]), start)
    for step in range(1, 601):
        calls = CALLS[0] * (CALLS[1] / CALLS[0]) ** (step / 600)
        now = comparison.best_after(round(calls), start)
        if now != best:
            yield best, first, calls
            first, best = calls, now
    yield best, first, CALLS[1]


def _about(calls: float) -> str:
    """A number of calls to two figures."""
    return f"{int(float(f'{calls:.2g}')):,}"


def _share(value: float, low: float, high: float) -> float:
    """How far along a logarithmic scale."""
    return math.log(value / low) / math.log(high / low)


def _check(start: str, shown: str) -> None:
    if start not in ("cold", "warm") or shown not in SCALES:
        known = ", ".join(map(repr, SCALES))
        raise ValueError(f"start={start!r}, shown={shown!r}: start is 'cold' or 'warm', shown is one of {known}")
