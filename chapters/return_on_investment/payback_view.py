"""Break-evens as a picture: predictions against what came."""

import math
from collections.abc import Sequence

from compile_lab.modes.payback import Crossing
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table

NEAR = 0.2
"""How far from the real crossing a prediction may be to be called near."""


def against(crossings: Sequence[Crossing], provenance: object) -> Drawing:
    """Predicted against real crossings, both scales logarithmic, with a band of 20 % about what would be right.

    Raises ValueError where none has crossed.
    """
    crossed = [one for one in crossings if one.ratio is not None]
    if not crossed:
        raise ValueError("none of these crossings was both predicted and reached: there is nothing to compare")
    values = [steps for one in crossed for steps in (one.steps, one.predicted.low or one.predicted.steps)]
    values += [one.predicted.high for one in crossed if one.predicted.high]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
    canvas, x, y, width, height = Canvas(), 120.0, 20.0, 620.0, 330.0

    def share(steps: float) -> float:
        return math.log(min(max(steps, low), high) / low) / math.log(high / low)

    def at(real: float, predicted: float) -> tuple[float, float]:
        return x + width * share(real), y + height * (1 - share(predicted))

    band = [at(low, low), at(low, low * (1 + NEAR)), at(high / (1 + NEAR), high), at(high, high)]
    canvas.area([*band, at(high, high * (1 - NEAR)), at(low / (1 - NEAR), low)], "#8884", title="within 20 %")
    canvas.line([at(low, low), at(high, high)], "ink", thick=1, dashed=True)
    decades = [10**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]
    for decade in decades:
        canvas.words(x - 10, at(low, decade)[1] + 6, f"{decade:,}", anchor="end")
    canvas.line([(x, y), (x, y + height)])
    canvas.words(x + 12, y + 8, "predicted steps")
    canvas.axis(x, y + height, width, [(share(decade), f"{decade:,}") for decade in decades], "real crossing, steps")
    for one in crossed:
        colour = "blue" if one.within(NEAR) else "orange"
        left, middle = at(one.steps, one.predicted.steps)
        ends = [at(one.steps, one.predicted.low or low), at(one.steps, one.predicted.high or high)]
        canvas.line(ends, colour, thick=2)
        canvas.box(left - 6, middle - 6, 12, 12, colour, title=f"{one.name}: {one.predicted}, really {one.steps:,}")
    near = sum(one.within(NEAR) for one in crossed)
    missed = [f"{one.name} {one.predicted.steps:,} and {one.steps:,}" for one in crossed if not one.within(NEAR)]
    alt = (
        f"Predicted against real crossings of {len(crossed)} programs: {near} predictions are within 20 %"
        + (f"; not so: {'; '.join(missed)}" if missed else "")
        + "."
    )
    legend = key({"within 20 %": "blue", "further off": "orange"})
    caption = f"break-even: predicted from two short runs (95 %), and where two long runs crossed, {crossed[0].clock}"
    return Drawing(canvas.svg(), alt, caption, compared(crossings), provenance, legend)


def compared(crossings: Sequence[Crossing]) -> Table:
    """One row a program: what was predicted, what came, and their ratio."""
    columns = [
        "program",
        "predicted [95 %]",
        "real",
        "predicted / real",
        "compile, s: predicted with",
        "then",
        "ms eager",
        "compiled",
    ]
    return Table(
        columns,
        [
            [
                f"{one.name} ({one.mode})" if one.mode != "default" else one.name,
                str(one.predicted),
                one.steps or "not reached",
                None if one.ratio is None else round(one.ratio, 3),
                round(one.predicted.compile_s, 2),
                round(one.compile_s, 2),
                round(one.predicted.eager_ms, 3),
                round(one.predicted.compiled_ms, 3),
            ]
            for one in crossings
        ],
    )
