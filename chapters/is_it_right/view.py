"""A wrong gradient's training run, and two rulers on compiled steps, as a reader sees them."""

from collections.abc import Mapping, Sequence

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.tables import Table

from .experiments.wrong_gradient import DiffusionRun, TableError
from .rulers import Measured, errors

LEFT, TOP, WIDE, HIGH = 70, 30, 880, 260
COLOURS = ("blue", "vermillion", "green", "purple")
RULERS = {"units": "units of rounding", "tolerance": "torch.allclose(rtol=t, atol=t)"}


@door
def losses(runs: Mapping[str, DiffusionRun], caption: str, provenance: object, window: int = 25) -> Drawing:
    """The loss of up to four runs, by their labels: means of ``window`` steps, at each such step.

    >>> from chapters.is_it_right.experiments.wrong_gradient import DiffusionRun
    >>> from chapters.is_it_right.view import losses
    >>> run = DiffusionRun("eager", "fp32", 1, 64, 0, (2.0, 1.0), ((1.0, 1.0),), {})
    >>> losses({"A": run}, "", None, window=1).alt
    'The loss of 1 runs, means of 1 steps: A from 2 to 1.'
    """
    means = {name: run.smoothed(window)[::window] for name, run in runs.items()}
    least, most = (pick(pick(each) for each in means.values()) for pick in (min, max))
    room = (most - least) or 1.0
    low, high = least - 0.1 * room, most + 0.1 * room
    steps = window * max(map(len, means.values()))
    canvas, ends = Canvas(), []
    for share in (0, 0.5, 1):
        y = TOP + (1 - share) * HIGH
        canvas.line([(LEFT, y), (LEFT + WIDE, y)], "#8884", thick=1)
        canvas.words(LEFT - 10, y + 6, f"{low + share * (high - low):.2f}", anchor="end")
    canvas.words(LEFT - 10, 18, "loss", anchor="end")
    for (name, values), colour in zip(means.items(), COLOURS, strict=False):
        at = [LEFT + WIDE * window * (number + 1) / steps for number in range(len(values))]
        heights = [TOP + HIGH * (high - value) / (high - low) for value in values]
        canvas.line(list(zip(at, heights, strict=True)), colour, thick=3)
        ends.append((heights[-1], name, colour))
    below = 0.0
    for height, name, colour in sorted(ends):  # one letter under another where the lines end together
        below = max(height + 7, below + 24)
        canvas.words(LEFT + WIDE + 10, below, name, bold=True, size=22, colour=colour)
    marks = [(share, f"{share * steps:.0f}") for share in (0, 1 / 3, 2 / 3, 1)]
    canvas.axis(LEFT, TOP + HIGH, WIDE, marks, "step")
    told = ", ".join(f"{name} from {values[0]:.3g} to {values[-1]:.3g}" for name, values in means.items())
    alt = f"The loss of {len(means)} runs, means of {window} steps: {told}."
    rows = [(window * (at + 1), *(round(each[at], 4) for each in means.values())) for at in range(steps // window)]
    return Drawing(canvas.svg(), alt, caption, Table(["step", *means], rows), provenance)


@door
def norms(runs: Mapping[str, DiffusionRun], caption: str, provenance: object, every: int = 25) -> Figure:
    """The norm of the first block's table, by step, of each run by its label.

    >>> from chapters.is_it_right.experiments.wrong_gradient import DiffusionRun
    >>> from chapters.is_it_right.view import norms
    >>> run = DiffusionRun("eager", "fp32", 1, 64, 0, (2.0, 1.0), ((1.0, 1.5),), {})
    >>> norms({"eager": run}, "", None, every=1)
    Figure: The norm of the first block's table: eager from 1 to 1.5.
    """
    series = []
    for name, run in runs.items():
        norm = run.table_norms[0]
        at = [1, *range(every, len(norm) + 1, every)] if every > 1 else list(range(1, len(norm) + 1))
        series.append(Series(name, at, [round(norm[step - 1], 3) for step in at]))
    ends = ", ".join(f"{each.name} from {each.values[0]:.3g} to {each.values[-1]:.3g}" for each in series)
    alt = f"The norm of the first block's table: {ends}."
    return lines(series, x_title="step", y_title="norm", alt=alt, caption=caption, provenance=provenance)


@door
def tables(rows: Sequence[TableError], provenance: object) -> Table:
    """The relative error of the shared table's gradient, by the input's shape.

    >>> from chapters.is_it_right.experiments.wrong_gradient import TableError
    >>> from chapters.is_it_right.view import tables
    >>> tables([TableError((1, 8192, 1024), 1.0, 6e-6)], None).rows
    [('1 × 8192 × 1024', '1', '6e-06')]
    """
    shown = [(" × ".join(map(str, row.shape)), f"{row.compiled:.1g}", f"{row.switched:.1g}") for row in rows]
    caption = f"Relative error of the table's gradient. {provenance or ''}"
    return Table(["input", "compiled", "with the switch off"], shown, caption, align="lrr")


@door
def ruled(rows: Sequence[Measured]) -> Table:
    """Each subject by both rulers, right ones first, each kind by its tolerance.

    >>> from chapters.is_it_right.rulers import Measured
    >>> from chapters.is_it_right.view import ruled
    >>> ruled([Measured("a sum", False, 0.077, 4.7)]).rows
    [('a sum', 'right', '0.077', '4.7')]
    """
    kinds, ordered = ("right", "wrong"), sorted(rows, key=lambda row: (row.wrong, row.tolerance))
    shown = [(row.name, kinds[row.wrong], f"{row.tolerance:.2g}", f"{row.units:.2g}") for row in ordered]
    return Table(["compiled step", "is", "least tolerance", "units of rounding"], shown, align="llrr")


@door
def panel(rows: Sequence[Measured], ruler: str, limit: float) -> list[object]:
    """What a limit on a ruler of `RULERS` makes of the subjects: who is accused, who is missed.

    >>> from chapters.is_it_right.rulers import Measured
    >>> from chapters.is_it_right.view import panel
    >>> print(panel([Measured("a sum", False, 0.077, 4.7)], "tolerance", 1e-3)[0])
    1 of 1 right steps accused, 0 of 0 faults missed.
    """
    accused, missed = errors(rows, ruler, limit)
    wrong = sum(row.wrong for row in rows)
    told = f"{len(accused)} of {len(rows) - wrong} right steps accused, {len(missed)} of {wrong} faults missed."
    parts: list[object] = [told]
    if accused or missed:
        pairs = [(name, "right, and accused") for name in accused] + [(name, "wrong, and missed") for name in missed]
        parts.append(Table(["compiled step", "verdict"], pairs))
    return parts
