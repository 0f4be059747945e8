"""Whole, by the block, by region, as pictures: compile time and saving against depth, and all break-evens in one."""

import math
from collections.abc import Sequence

from compile_lab.modes.regional import WAYS, Regional, WayCost
from compile_lab.page.canvas import Canvas, key, round_ticks
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import with_quartiles, with_unit

COLOURS = dict(zip(WAYS, ("ink", "orange", "purple", "blue"), strict=True))
DRAWN = ("blocks", "region", "whole")
X, Y, WIDTH, HEIGHT = 70, 52, 390, 250


def depths(regionals: Sequence[Regional]) -> Drawing:
    """Two panels over the depths of a series: seconds of compiling, and what a step saves of eager's time, in %.

    Raises ValueError without a series of at least two depths.
    """
    series = sorted((one for one in regionals if one.series), key=lambda one: one.layers)
    if len({one.layers for one in series}) < 2:
        raise ValueError(f"a line over depth needs models of at least two depths, and there are {len(series)}")
    canvas, deepest = Canvas(), max(one.layers for one in series)
    seconds = {way: [(one.layers, cost.compile_s) for one, cost in _of(series, way)] for way in DRAWN}
    saved = {way: [(one.layers, *_saved(one, cost)) for one, cost in _of(series, way)] for way in DRAWN}
    _panel(canvas, X, "compiling, s", {way: [(n, s, s, s) for n, s in at] for way, at in seconds.items()}, deepest)
    _panel(canvas, X + 500, "a step saves, % of eager", saved, deepest)
    said = []
    for way in DRAWN:
        told = ", ".join(
            f"{layers} layers {compile_s:.3g} s and {percent:.2g} %"
            for (layers, compile_s), (_, percent, *_) in zip(seconds[way], saved[way], strict=True)
        )
        said += [f"{way}: {told}"] if told else []
    caption = f"{series[0].what.partition(',')[0].partition('of ')[2]}, by depth; bars are 95 % intervals"
    legend = key({way: COLOURS[way] for way in DRAWN})
    alt = f"Compile time, and time that a step saves, against depth. {'; '.join(said)}."
    return Drawing(canvas.svg(), alt, caption.strip(", "), table(series), series[0].provenance, legend)


def break_evens(regionals: Sequence[Regional], ways: Sequence[str] = DRAWN) -> Drawing:
    """After how many steps each way pays on each model: an interval on a logarithmic scale; to the end: maybe never.

    Raises ValueError where no way has an interval.
    """
    found = [
        (one, way, one.ways[way].payback)
        for one in regionals
        for way in ways
        if way in one.ways and one.ways[way].payback
    ]
    ends = [steps for _, _, pays in found for steps in (pays.low, pays.high) if steps]
    if not ends:
        raise ValueError("none of these ways has a break-even to draw")
    low, high = 10 ** math.floor(math.log10(min(ends))), 10 ** math.ceil(math.log10(max(ends) * 1.01))
    canvas, x, width, y = Canvas(), 330.0, 600.0, 30.0

    def at(steps: float) -> float:
        return x + width * math.log(max(steps, 1) / low) / math.log(high / low)

    named = None
    for one, way, pays in found:
        if one.name != named:
            y += 10
            canvas.words(0, y + 15, one.name, bold=True, size=17)
            named = one.name
        canvas.words(x - 14, y + 15, way, anchor="end", size=16)
        if pays.low is None:
            canvas.words(x, y + 15, "never", size=16)
        else:
            until = at(pays.high) if pays.high else x + width
            canvas.box(at(pays.low), y + 2, max(4.0, until - at(pays.low)), 16, COLOURS[way], title=str(pays))
            if not pays.high:
                canvas.words(x + width + 6, y + 15, "or never", size=15)
        y += 24
    powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
    canvas.axis(x, y + 6, width, [((at(10**p) - x) / width, f"{10**p:,}") for p in powers], "steps")
    alt = "Steps after which compiling has paid. " + "; ".join(f"{one.name}, {way}: {pays}" for one, way, pays in found)
    caption = "after how many steps compiling has paid, 95 % intervals"
    legend = key({way: COLOURS[way] for way in ways})
    return Drawing(canvas.svg(), f"{alt}.", caption, table(regionals), regionals[0].provenance, legend)


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


def _of(series: Sequence[Regional], way: str) -> list[tuple[Regional, WayCost]]:
    return [(one, one.ways[way]) for one in series if way in one.ways and one.ways[way].payback]


def _saved(one: Regional, cost: WayCost) -> tuple[float, float, float]:
    """What a step saves, in per cent of eager's, and the ends of its interval."""
    pays = cost.payback
    return tuple(100 * each / pays.eager_ms for each in (pays.saved_ms, pays.saved_low_ms, pays.saved_high_ms))


def _panel(
    canvas: Canvas, x: float, name: str, lines: dict[str, list[tuple[float, float, float, float]]], deepest: int
) -> None:
    """A small plot over depth: a line a way, each point with its interval."""
    values = [value for points in lines.values() for point in points for value in point[1:]]
    top, bottom = max(*values, 1e-9) * 1.08, min(0.0, *values)

    def at(layers: float, value: float) -> tuple[float, float]:
        return x + WIDTH * layers / deepest, Y + HEIGHT * (1 - (value - bottom) / (top - bottom))

    canvas.words(x, 26, name, bold=True)
    for share, label in round_ticks(top, most=4):
        canvas.words(x - 8, at(0, share * top)[1] + 6, label, anchor="end", size=16)
    if bottom:
        canvas.line([at(0, 0), at(deepest, 0)], "#8888", thick=1)
    canvas.line([(x, Y), (x, Y + HEIGHT)])
    places = sorted({point[0] for points in lines.values() for point in points})
    canvas.axis(x, Y + HEIGHT, WIDTH, [(n / deepest, f"{n:g}") for n in places if n != 2], "layers")
    for way, points in lines.items():
        if points:
            canvas.line([at(n, value) for n, value, _, _ in points], COLOURS[way], thick=3)
        for n, value, low, high in points:
            canvas.line([at(n, low), at(n, high)], COLOURS[way], thick=2)
            left, middle = at(n, value)
            canvas.box(left - 5, middle - 5, 10, 10, COLOURS[way], title=f"{way}, {n} layers: {value:.3g}")
