"""Whole, by the block, by region, as pictures: compile time and saving against depth, and all break-evens in one."""

from collections.abc import Sequence

from compile_lab.modes.regional import WAYS, Regional, WayCost
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, Row, dotted, lines, short
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import with_quartiles, with_unit

COLOURS = dict(zip(WAYS, ("grey", "orange", "purple", "blue"), strict=True))
DRAWN = ("blocks", "region", "whole")


def depths(regionals: Sequence[Regional], saving: bool = False) -> Drawing:
    """Over the depths of a series, seconds of compiling; or with ``saving`` what a step saves of eager's time, in %.

    Raises ValueError without a series of at least two depths.
    """
    series = sorted((one for one in regionals if one.series), key=lambda one: one.layers)
    if len({one.layers for one in series}) < 2:
        raise ValueError(f"a line over depth needs models of at least two depths, and there are {len(series)}")
    drawn = []
    for way in DRAWN:
        found = [(one, one.ways[way]) for one in series if way in one.ways and one.ways[way].payback]
        shares = [_saved(one, cost) for one, cost in found]
        values = [share[0] for share in shares] if saving else [cost.compile_s or 0.0 for _, cost in found]
        points = [(one.layers, value) for (one, _), value in zip(found, values, strict=True)]
        drawn += [Line(way, points, dots=True, spreads=[s[1:] for s in shares] if saving else ())] if points else []
    places = sorted({place for line in drawn for place, _ in line.points})
    told = ", ".join(f"{one.series} {short(one.points[0][1])} to {short(one.points[-1][1])}" for one in drawn)
    what, unit = ("a step saves, of eager's time", "%") if saving else ("compiling", "s")
    return lines(
        {"": drawn},
        Axis("layers", ticks=places, until=places[-1]),
        Axis(what, unit),
        title=f"From {places[0]} to {places[-1]} layers, {what}, in {unit}: {told}.",
        caption=series[0].what.partition(",")[0].partition("of ")[2] + ", 95 % intervals" * saving,
        colours=COLOURS,
        provenance=series[0].provenance,
        table=None if saving else table([one for one in series if one.done]),
    )


def break_evens(regionals: Sequence[Regional]) -> Drawing:
    """After how many steps each way pays on each model, with its interval: to the end of the axis if maybe never.

    Raises ValueError where no way has an interval.
    """
    found = [
        (one, way, pays) for one in regionals for way in DRAWN if way in one.ways and (pays := one.ways[way].payback)
    ]
    ends = [steps for _, _, pays in found for steps in (pays.low, pays.steps, pays.high) if steps]
    if not ends:
        raise ValueError("none of these ways has a break-even to draw")
    until = Axis(log=True).scale(ends).until
    axis = Axis("steps", log=True, until=until)
    rows = []
    for one, way, pays in found:
        after = (
            "never" if pays.low is None else (f"{pays.steps:,}" if pays.steps else "") + " or never" * (not pays.high)
        )
        spreads = {way: (pays.low, pays.high or until)} if pays.low else {}
        rows.append(Row(way, {way: pays.steps} if pays.steps else {}, after, one.name, spreads=spreads))
    return dotted(
        rows,
        axis,
        title="Steps after which compiling has paid: "
        + ", ".join(f"{row.name} {row.after}" for row in rows if row.group == rows[0].group)
        + f" ({rows[0].group}).",
        caption="95 % intervals",
        colours=COLOURS,
        provenance=regionals[0].provenance,
        table=table(regionals),
    )


def table(regionals: Sequence[Regional]) -> Table:
    """One row a model and way: compile time, graphs, kernels, a step with its quartiles, peak memory, break-even."""
    columns = ["model", "way", "compile, s", "graphs", "kernels", "a step, ms", "saved, %", "peak", "pays after, steps"]
    return Table(columns, [[one.name, way, *_cells(one, cost)] for one in regionals for way, cost in one.ways.items()])


def _cells(one: Regional, cost: WayCost) -> list[Cell]:
    if cost.stopped or cost.step is None:
        return [cost.stopped, None, None, None, None, None, None]
    step = with_quartiles(cost.step.median_ms, cost.step.low_ms, cost.step.high_ms)
    saved = None if cost.payback is None else round(_saved(one, cost)[0], 1)
    peak = None if cost.peak_nbytes is None else with_unit(cost.peak_nbytes)
    pays = None if cost.payback is None else str(cost.payback)
    return [cost.compile_s, cost.graphs, cost.kernels, step, saved, peak, pays]


def _saved(one: Regional, cost: WayCost) -> tuple[float, float, float]:
    """What a step saves, in per cent of eager's, and the ends of its interval."""
    pays = cost.payback
    assert pays is not None  # of a way that was timed in turn
    saved, low, high = (100 * each / pays.eager_ms for each in (pays.saved_ms, pays.saved_low_ms, pays.saved_high_ms))
    return saved, low, high
