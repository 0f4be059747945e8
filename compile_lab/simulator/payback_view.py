"""What compiling is worth to a job, as it is seen: the hours along its steps, and where jobs have earned it back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..doors import check_amount, check_whole
from ..page.axes import Range
from ..page.canvas import Canvas, key, round_ticks
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import significant
from .payback import CACHES, ONCE, CompiledWay, Interval, balance, stored

OWN = "my own times"
OWN_SOURCE = f"Your own times; a start may take {ONCE:g} times as long, or as short"
MOST_TEETH = 60
"""Restarts that are drawn one by one; of more, the line is straight."""
Place = Callable[[float, float], tuple[float, float]]
BAND, LATE = "#0072B240", "#E69F0055"
LEFT, WIDE, TALL = 112.0, 870.0, 240.0


def axes(rows: Sequence[CompiledWay] | None = None) -> dict[str, tuple[str, ...] | Range]:
    """The controls of `panel`: what was recorded, and a job of the reader's own."""
    rows = rows or stored()
    own = {"where": ("model", OWN), "log": True}
    return {
        "model": (*dict.fromkeys(row.model for row in rows), OWN),
        "way": tuple(dict.fromkeys(row.way for row in rows)),
        "a_restart_finds": tuple(cache for cache in CACHES if any(cache in row.starts_s for row in rows)),
        "steps": Range(100, 10_000_000, 20_000, 100, log=True),
        "restarts": Range(0, 200, 3),
        "devices": Range(1, 4096, 1, log=True),
        "eager_step": Range(1, 10_000, 100, unit="ms", **own),
        "compiled_step": Range(1, 10_000, 80, unit="ms", **own),
        "unsure_by": Range(0, 20, 1, 0.1, "%", where=("model", OWN)),
        "cold_start": Range(1, 3_600, 60, unit="s", **own),
        "later_start": Range(1, 3_600, 10, unit="s", **own),
    }


def panel(
    model: str,
    way: str,
    a_restart_finds: str,
    steps: int,
    restarts: int,
    devices: int,
    eager_step: float,
    compiled_step: float,
    unsure_by: float,
    cold_start: float,
    later_start: float,
) -> list[str | Drawing]:
    """Hours saved or lost by one job, along its steps. The last five are looked at for a job of one's own only.

    ``unsure_by`` is half the interval of the difference of two steps, in per cent of an eager one; starts are taken as
    `ONCE` says. Raises ValueError as `balance`, and for a way of a model that was not recorded.
    """
    check_whole("steps", steps), check_whole("devices", devices), check_whole("restarts", restarts, 0)
    times = (eager_step, compiled_step, unsure_by, cold_start, later_start)
    row = own(*times) if model == OWN else recorded(model, way)
    found = balance(row, steps, restarts, a_restart_finds)
    return [
        told(row, steps, restarts, a_restart_finds, devices),
        along(row, steps, restarts, a_restart_finds, row.source or OWN_SOURCE),
        scales(found.saved_s, found.compile_s),
    ]


def recorded(model: str, way: str) -> CompiledWay:
    """The stored row. ValueError, with what there is, for a way in which this model was not measured."""
    ways = {row.way: row for row in stored() if row.model == model}
    if way not in ways:
        raise ValueError(f"{model} was not measured compiled as {way!r}; there is {', '.join(ways)}")
    return ways[way]


def own(eager: float, compiled: float, unsure: float, cold: float, later: float) -> CompiledWay:
    """A reader's own times: steps in ms, `unsure` in per cent of an eager step, starts in seconds."""
    times = {"eager_step": eager, "compiled_step": compiled, "cold_start": cold, "later_start": later}
    for name, value in {**times, "unsure_by": unsure}.items():
        check_amount(name, value)
        if not value and name in ("eager_step", "compiled_step"):
            raise ValueError(f"{name} is 0; a step takes time")
    wide = unsure / 100 * eager
    starts = {"cold": Interval.once(cold), "artifacts": Interval.once(later), "warm": Interval.once(later)}
    return CompiledWay(
        OWN,
        "as measured",
        eager,
        Interval(eager - compiled, eager - compiled - wide, eager - compiled + wide),
        starts,
    )


def told(row: CompiledWay, steps: int, restarts: int, cache: str, devices: int = 1) -> str:
    """The verdict with its interval, the break-even, and how many restarts the saving bears."""
    found = balance(row, steps, restarts, cache)
    net, whole_s = found.net_s, steps * row.eager_ms / 1e3
    verdict = {"pays": "It pays", "loses": "It loses", "undecided": "It is undecided"}[found.verdict]
    word = "lost" if net.value < 0 else "saved"
    sure = spread(net if net.value >= 0 else Interval(-net.value, -net.high, -net.low))
    on = f", on each of {devices:,} devices: {duration(devices * abs(net.value))} in all" if devices > 1 else ""
    bears, few, many = (math.floor(n) if n < math.inf else n for n in found.restarts)
    plural = "" if bears == 1 else "s"
    gone = f" The saving bears **{count(bears)} restart{plural}** ({count(few)} to {count(many)})." if bears else ""
    even = earned(balance(row, steps, 0).break_even, "A cold start")
    if restarts and found.break_even[0] < math.inf:
        even += f"; {earned(found.break_even, f'all {restarts + 1} starts')}"
    return f"**{verdict}: {sure} {word}** of {duration(whole_s)} in eager{on}. {even}.{gone}"


def earned(crossing: tuple[float, float, float], what: str) -> str:
    """When that many starts are earned back, in words."""
    value, early, late = crossing
    if value == math.inf:
        least = "" if early == math.inf else f", or after {count(early)} steps at the earliest"
        return f"{what} **never** pays back{least}"
    return f"{what}: earned back after **{count(value)} steps** ({count(early)} to {count(late)})"


def along(
    row: CompiledWay, steps: int, restarts: int, cache: str, caption: str = "", provenance: object | None = None
) -> Drawing:
    """Net time along the job's steps, a tooth down at each restart, with its 95 % band; eager is the line at 0."""
    places = _places(steps, restarts)
    band = [balance(row, done, n, cache).net_s for done, n in places]
    low, high = min(0.0, *(each.low for each in band)), max(0.0, *(each.high for each in band))
    unit, each_s = unit_of(max(-low, high))
    ends, canvas = (low - 0.06 * (high - low), high + 0.06 * (high - low)), Canvas()

    def at(done: float, net: float) -> tuple[float, float]:
        return LEFT + done / steps * WIDE, 14 + (ends[1] - net) / (ends[1] - ends[0]) * TALL

    _earned(canvas, [(done, net) for (done, _), net in zip(places, band, strict=True)], at)
    upper = [at(done, one.high) for (done, _), one in zip(places, band, strict=True)]
    lower = [at(done, one.low) for (done, _), one in zip(places, band, strict=True)]
    canvas.area([*upper, *reversed(lower)], BAND, title="95 % of what the measured times allow")
    canvas.line([at(done, one.value) for (done, _), one in zip(places, band, strict=True)], "blue", thick=3)
    canvas.line([at(0, 0), at(steps, 0)], thick=2)
    for tick in _ticks(ends[0] / each_s, ends[1] / each_s):
        y = at(0, tick * each_s)[1]
        canvas.line([(LEFT - 7, y), (LEFT, y)])
        canvas.words(LEFT - 12, y + 6, f"{tick:+g}" if tick else "0", anchor="end")
    canvas.words(0, 22, unit)
    canvas.line([(LEFT, 14), (LEFT, 14 + TALL)])
    canvas.axis(LEFT, 14 + TALL + 6, WIDE, _step_ticks(steps))
    found = balance(row, steps, restarts, cache)
    alt = (
        f"Net time along {steps:,} steps with {restarts} restarts: at the end {spread(found.net_s)}; "
        f"earned back after {', '.join(map(count, found.break_even))} steps (value, from, to)."
    )
    legend = key({"saved so far, less all compiling so far": "blue", "earned back here (95 %)": "orange"})
    caption = caption or f"{row.model}, {row.way}. A tooth down is a restart"
    return Drawing(canvas.svg(), alt, caption, provenance=provenance, legend=f"{legend} &nbsp; 0 is eager")


def _earned(canvas: Canvas, along_steps: Sequence[tuple[int, Interval]], at: Place) -> None:
    """From where on the net time may be above 0 for good to where it surely is, as a band from top to bottom."""
    may = next((done for done, net in reversed(along_steps) if net.high < 0), 0)
    surely = next((done for done, net in reversed(along_steps) if net.low < 0), 0)
    if along_steps[-1][1].high > 0:
        left, right = at(may, 0)[0], at(surely, 0)[0]
        right = max(right, left + 4)
        canvas.area([(left, 14), (right, 14), (right, 14 + TALL), (left, 14 + TALL)], LATE)


def _places(steps: int, restarts: int) -> list[tuple[int, int]]:
    """Where the line is drawn: steps done, and restarts until then; two at each restart, before it and after."""
    if restarts > MOST_TEETH:
        return [(round(steps * part / 100), round(restarts * part / 100)) for part in range(101)]
    each = [round(steps * part / (restarts + 1)) for part in range(restarts + 2)]
    inner = max(1, 120 // (restarts + 1))
    places = []
    for number in range(restarts + 1):
        start, end = each[number], each[number + 1]
        places += [(start + round((end - start) * part / inner), number) for part in range(inner + 1)]
    return places


def scales(saved: Interval, paid: Interval) -> Drawing:
    """What all steps save beside what all starts cost, on one axis, the interval's ends as a line through each end."""
    until, unit = max(abs(saved.high), abs(saved.low), paid.high), ""
    unit, each_s = unit_of(until)
    canvas = Canvas()
    until = next(e * 10.0**p for p in range(-6, 12) for e in (1, 2, 5) if e * 10.0**p >= until / each_s) * each_s
    word = "steps save" if saved.value >= 0 else "steps lose"
    for row, (name, one, colour) in enumerate(((word, saved, "blue"), ("starts cost", paid, "orange"))):
        low, value, high = sorted(abs(part) / until * WIDE for part in (one.low, one.value, one.high))
        top = 8 + 42 * row
        canvas.words(0, top + 22, name)
        canvas.box(LEFT, top, max(1.0, value), 30, colour, title=f"{name}: {spread(one)}")
        canvas.line([(LEFT + low, top + 15), (LEFT + high, top + 15)], thick=3)
    canvas.axis(LEFT, 96, WIDE, round_ticks(until / each_s, unit))
    return Drawing(canvas.svg(), f"All steps: {spread(saved)} {word.split()[1]}d; all starts: {spread(paid)}.")


def crossings(
    rows: Sequence[CompiledWay], caption: str = "", provenance: object | None = None, *, cache: str = "cold"
) -> Drawing:
    """After how many steps each way has earned back one start: a mark with its interval, on a logarithmic axis.

    A start is a cold one unless `cache` says. An arrow at the right edge may be never. Raises ValueError for no
    rows.
    """
    if not rows:
        raise ValueError("nothing to draw: give at least one CompiledWay")
    found = [(row, balance(row, 0, 0, cache, shipped=True).break_even) for row in rows]
    known = [n for _, three in found for n in three if 0 < n < math.inf]
    low, high = (
        10.0 ** math.floor(math.log10(min(known, default=1))),
        10.0 ** math.ceil(math.log10(max(known, default=10))),
    )
    high = max(high, 10 * low)
    names = [f"{row.model}, {row.way}" for row in rows]
    canvas, wide = Canvas(), 870.0

    def at(n: float) -> float:
        return 30 + math.log(min(max(n, low), high) / low) / math.log(high / low) * wide

    for index, ((_, (value, early, late)), name) in enumerate(zip(found, names, strict=True)):
        y = 18 + 50 * index  # the name stands above its line, where a phone's larger letters have room
        canvas.words(0, y, name)
        y += 18
        canvas.line([(30, y), (30 + wide, y)], "#8884", thick=1)
        if early == math.inf:
            canvas.words(985, y + 6, "never", anchor="end", colour="vermillion", bold=True)
            continue
        until = 985 if late == math.inf else at(late)
        canvas.line([(at(early), y), (until, y)], "blue", thick=6, arrow=late == math.inf)
        if value < math.inf:
            canvas.words(at(value), y + 7, "●", anchor="middle", size=22, colour="blue")
    powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
    ticks = [(math.log(10.0**p / low) / math.log(high / low), count(10.0**p)) for p in powers]
    canvas.axis(30, 6 + 50 * len(rows), wide, ticks, "steps until compiling is earned back")
    said = [[name, *map(count, three)] for (_, three), name in zip(found, names, strict=True)]
    alt = "Steps until compiling is earned back: " + "; ".join(f"{n} {v} ({e} to {late})" for n, v, e, late in said)
    table = Table(["model, way", "steps", "from", "to"], said, align="lrrr")
    return Drawing(canvas.svg(), alt, caption, table, provenance)


def count(n: float) -> str:
    """A number of steps as one says it: three figures, "never" where it is infinite."""
    return "never" if n == math.inf else significant(n) if n >= 1 else "0"


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit in which a time is read well, and its seconds."""
    return next((unit, size) for unit, size, least in UNITS if seconds >= least)


UNITS = (("days", 86_400, 172_800), ("hours", 3_600, 3_600), ("minutes", 60, 100), ("s", 1, 0.5), ("ms", 1e-3, 0))
"""Their seconds, and from how many on they are taken."""


def duration(seconds: float) -> str:
    """A time in a unit that reads well, to three figures: ``3.21 hours``."""
    unit, size = unit_of(abs(seconds))
    return f"{significant(seconds / size)} {unit}"


def spread(one: Interval) -> str:
    """A time and its interval in one unit: ``3.21 hours (3.02 to 3.4)``."""
    unit, size = unit_of(max(abs(one.low), abs(one.high)))
    value, low, high = (significant(part / size) for part in (one.value, one.low, one.high))
    return f"{value} {unit} ({low} to {high})"


def _ticks(low: float, high: float) -> list[float]:
    """Round places between two ends, 0 among them, no more than six."""
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(step * power for step in (1, 2, 5, 10) if step * power * 5 >= high - low)
    return [round(at * step, 12) for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _step_ticks(steps: int) -> list[tuple[float, str]]:
    size, word = next((size, word) for size, word in ((1e6, " million"), (1e3, ",000"), (1, "")) if steps >= size)
    ticks = [
        (share, f"{float(text.split()[0]):g}{word}" if share else "0") for share, text in round_ticks(steps / size)
    ]
    return [*ticks[:-1], (1.0, f"{count(steps)} steps")]
