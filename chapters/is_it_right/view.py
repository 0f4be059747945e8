"""A wrong gradient's training run, and two rulers on compiled steps, as a reader sees them."""

import math
from collections.abc import Mapping, Sequence

from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, lines, short
from compile_lab.page.tables import Table

from .experiments.wrong_gradient import DiffusionRun, TableError
from .rulers import Measured, errors

RULERS = {"units": "units of rounding", "tolerance": "torch.allclose(rtol=t, atol=t)"}


@door
def losses(runs: Mapping[str, DiffusionRun], caption: str, provenance: object, window: int = 25) -> Drawing:
    """The loss of each run by its label: means of ``window`` steps, at each such step.

    >>> from chapters.is_it_right.experiments.wrong_gradient import DiffusionRun
    >>> from chapters.is_it_right.view import losses
    >>> run = DiffusionRun("eager", "fp32", 1, 64, 0, (2.0, 1.0), ((1.0, 1.0),), {})
    >>> losses({"A": run}, "", None, window=1).alt
    'After 2 steps the losses of the runs A are between 1.00 and 1.00. A from 2.0 at 1 to 1.0 at 2.'
    """
    means = {
        name: [(window * at, value) for at, value in enumerate(run.smoothed(window)[::window], 1)]
        for name, run in runs.items()
    }
    (steps, _), values = next(iter(means.values()))[-1], [value for points in means.values() for _, value in points]
    ends = sorted(points[-1][1] for points in means.values())
    title = (
        f"After {steps} steps the losses of the runs {', '.join(means)} are between {ends[0]:.2f} and {ends[-1]:.2f}."
    )
    low, until = math.floor(10 * min(values)) / 10, math.floor(10 * max(values) + 1) / 10
    drawn = [Line(name, points) for name, points in means.items()]
    axes = Axis("step"), Axis("loss", low=low, until=until)
    return lines({"": drawn}, *axes, title=title, caption=caption, provenance=provenance)


@door
def norms(runs: Mapping[str, DiffusionRun], caption: str, provenance: object, every: int = 25) -> Drawing:
    """The norm of the first block's table, by step, of each run by its label.

    >>> from chapters.is_it_right.experiments.wrong_gradient import DiffusionRun
    >>> from chapters.is_it_right.view import norms
    >>> run = DiffusionRun("eager", "fp32", 1, 64, 0, (2.0, 1.0), ((1.0, 1.5),), {})
    >>> norms({"eager": run}, "", None, every=1).alt
    'At the end the norm is 1.5 (eager). eager from 1.0 at 1 to 1.5 at 2.'
    """
    drawn = []
    for name, run in runs.items():
        norm = run.table_norms[0]
        points = [(step, norm[step - 1]) for step in dict.fromkeys([1, *range(every, len(norm) + 1, every)])]
        drawn.append(Line(name, points, short(points[-1][1])))
    ends = ", ".join(f"{line.label} ({line.series})" for line in drawn)
    title = f"At the end the norm is {ends}."
    return lines({"": drawn}, Axis("step"), Axis("norm"), title=title, caption=caption, provenance=provenance)


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
    shown = [(_named(row.name), kinds[row.wrong], f"{row.tolerance:.2g}", f"{row.units:.2g}") for row in ordered]
    return Table(["compiled step", "is", "least tolerance", "units of rounding"], shown, align="llrr")


@door
def panel(rows: Sequence[Measured], ruler: str, limit: float) -> list[object]:
    """What a limit on a ruler of `RULERS` makes of the subjects: who is accused, who is missed.

    >>> from chapters.is_it_right.rulers import Measured
    >>> from chapters.is_it_right.view import panel
    >>> print(panel([Measured("a sum", False, 0.077, 4.7)], "tolerance", 1e-3)[0])
    A tolerance of 0.001 accuses 1 of 1 right steps, and misses 0 of 0 faults.
    """
    accused, missed = errors(rows, ruler, limit)
    wrong = sum(row.wrong for row in rows)
    drawn = f"limit of {limit:,g} units" if ruler == "units" else f"tolerance of {limit:g}"
    found = f"{len(accused)} of {len(rows) - wrong} right steps, and misses {len(missed)} of {wrong} faults"
    parts: list[object] = [f"A {drawn} accuses {found}."]
    if accused or missed:
        pairs = [(name, "right, and accused") for name in accused]
        pairs += [(_named(name), "wrong, and missed") for name in missed]
        parts.append(Table(["compiled step", "verdict"], pairs))
    return parts


def _named(subject: str) -> str:
    return subject.replace("a gradient ", "a gradient: ", 1)
