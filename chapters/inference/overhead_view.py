"""The cost of a call against the number of layers, what skipped guards do to an answer, what each stance does."""

from collections.abc import Iterable, Sequence

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.tables import Table
from compile_lab.page.units import number
from compile_lab.recordings import Recording

from .overhead import CallCost
from .skipped import STANCE_CALLS, ChangeTold, StanceTold


@door
def recorded(recording: Recording) -> tuple[list[CallCost], list[CallCost]]:
    """Of the recording `overhead`: what surrounds a graph that does nothing, and calls of real code."""
    guards, calls = recording.result["guards"], recording.result["calls"]
    return [CallCost.from_json(one) for one in guards], [CallCost.from_json(one) for one in calls]


@door
def cost_lines(costs: Sequence[CallCost], provenance: object, by: str = "modules", caption: str = "") -> Figure:
    """Microseconds a call against the number of modules or of inputs, a line for each way, both axes logarithmic.

    ``by`` is "modules" or "inputs". ValueError for another, or where nothing was measured by it.
    """
    if by not in ("modules", "inputs"):
        raise ValueError(f'by is {by!r}: it is "modules" or "inputs"')
    varied = [one for one in costs if one.median_us is not None and bool(one.modules) == (by == "modules")]
    if not varied:
        raise ValueError(f"none of the {len(costs)} costs was measured by {by}: nothing to draw")
    series = []
    for way in dict.fromkeys(one.way for one in varied):
        mine = sorted((one for one in varied if one.way == way), key=lambda one: getattr(one, by))
        spread = [[getattr(one, name) for one in mine] for name in ("median_us", "low_us", "high_us")]
        series.append(Series(way, [getattr(one, by) for one in mine], *spread))
    said = "; ".join(f"{one.name} from {one.values[0]:.3g} to {one.values[-1]:.3g}" for one in series)
    return lines(
        series,
        x_title=by,
        y_title="µs a call",
        alt=f"Microseconds a call from {min(series[0].at):g} to {max(series[0].at):g} {by}: {said}.",
        caption=caption or "median and quartiles of a call",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )


@door
def changes(told: Sequence[ChangeTold]) -> Drawing:
    """The answer after each change, with guards checked and skipped in two ways: a wrong one stands in orange."""
    canvas = Canvas(size=18)
    lefts, wide = (262, 392, 522, 652), 122
    for left, text in zip(lefts, ("true", "checked", "by stance", "no guards"), strict=True):
        canvas.words(left + wide / 2, 24, text, anchor="middle", fine=True)
    rows = []
    for index, one in enumerate(told):
        y = 38 + 44 * index
        canvas.words(0, y + 25, one.change)
        canvas.box(lefts[0], y, wide, 36, "grey", number(one.true))
        cells: list[str] = []
        for left, skip in zip(lefts[1:], ("checked", "stance", "filter"), strict=True):
            given, wrong = getattr(one, skip), one.wrong(skip)
            text = "error" if isinstance(given, str) else number(given)
            colour = "orange" if wrong else "purple" if isinstance(given, str) else "green"
            canvas.box(left, y, wide, 36, colour, text, title=given if isinstance(given, str) else "")
            cells.append(f"{given if isinstance(given, str) else number(given)}{', wrong' if wrong else ''}")
        rows.append([one.change, number(one.before), number(one.true), *cells])
    alt = " ".join(
        f"{row[0]}: true {row[2]}; checked {row[3]}; by stance {row[4]}; no guards {row[5]}." for row in rows
    )
    table = Table(["change", "before", "true", "checked", "skipped by stance", "no guards made"], rows)
    legend = "Green is right, orange silently wrong, purple an error."
    return Drawing(canvas.svg(), alt, "the first number of the answer, after a change", table, legend=legend)


@door
def stance_table(told: Iterable[StanceTold]) -> Table:
    """What each stance does, call by call."""
    return Table(["stance", *STANCE_CALLS], [[one.stance, *one.calls] for one in told])
