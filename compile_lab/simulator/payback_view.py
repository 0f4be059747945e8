"""What compiling is worth to a job, as it is seen: the hours along its steps, and where jobs have earned it back."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ..doors import check_amount, check_whole
from ..page.axes import Range
from ..page.figures import Drawing
from ..page.marks import Axis, Line, Row, dotted, lines, segments
from ..page.tables import Table
from ..page.units import significant
from .payback import CACHES, ONCE, CompiledWay, Interval, balance, stored

OWN, NET = "my own times", "saved"
OWN_SOURCE = f"Your own times; a start may take {ONCE:g} times as long, or as short"
MOST_TEETH = 60
"""Restarts that are drawn one by one; of more, the line is straight."""


def axes(rows: Sequence[CompiledWay] | None = None) -> dict[str, tuple[str, ...] | Range]:
    """The controls of `panel`: what was recorded, and a job of the reader's own."""
    rows = rows or stored()
    own = functools.partial(Range, where=("model", OWN), log=True)
    return {
        "model": (*dict.fromkeys(row.model for row in rows), OWN),
        "way": tuple(dict.fromkeys(row.way for row in rows)),
        "a_restart_finds": tuple(cache for cache in CACHES if any(cache in row.starts_s for row in rows)),
        "steps": Range(100, 10_000_000, 20_000, 100, log=True),
        "restarts": Range(0, 200, 3),
        "devices": Range(1, 4096, 1, log=True),
        "eager_step": own(1, 10_000, 100, unit="ms"),
        "compiled_step": own(1, 10_000, 80, unit="ms"),
        "unsure_by": Range(0, 20, 1, 0.1, "%", where=("model", OWN)),
        "cold_start": own(1, 3_600, 60, unit="s"),
        "later_start": own(1, 3_600, 10, unit="s"),
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
    check_whole("steps", steps)
    check_whole("devices", devices)
    check_whole("restarts", restarts, 0)
    times = (eager_step, compiled_step, unsure_by, cold_start, later_start)
    row = own(*times) if model == OWN else recorded(model, way)
    found = balance(row, steps, restarts, a_restart_finds)
    return [
        summary(row, steps, restarts, a_restart_finds, devices),
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


def summary(row: CompiledWay, steps: int, restarts: int, cache: str, devices: int = 1) -> str:
    """The verdict with its interval, the break-even, and for how many restarts the saving would pay."""
    found = balance(row, steps, restarts, cache)
    net, whole_s = found.net_s, steps * row.eager_ms / 1e3
    verdict = {"pays": "It pays", "loses": "It loses", "undecided": "It is undecided"}[found.verdict]
    on = f", on each of {devices:,} devices: {duration(devices * abs(net.value))} in all" if devices > 1 else ""
    bears, few, many = (math.floor(n) if n < math.inf else n for n in found.restarts)
    most = "any number of restarts" if bears == math.inf else f"{count(bears)} restart{'s' * (bears != 1)}"
    ends = " to ".join("any number" if n == math.inf else count(n) for n in (few, many))
    gone = f" The saving would pay for **{most}**{f' ({ends})' * (few < math.inf)}." if bears else ""
    even = earned(balance(row, steps, 0).break_even, "A cold start")
    if restarts and found.break_even[0] < math.inf:
        even += f"; {earned(found.break_even, f'all {restarts + 1} starts')}"
    return f"**{verdict}: {lost_or_saved(net)}** of {duration(whole_s)} in eager{on}. {even}.{gone}"


def earned(crossing: tuple[float, float, float], what: str) -> str:
    """When that many starts are earned back, in words."""
    value, early, late = crossing
    if value == math.inf:
        least = "" if early == math.inf else f", or after {count(early)} steps at the earliest"
        return f"{what} **never** pays back{least}"
    return f"{what}: earned back after **{count(value)} steps** ({count(early)} to {count(late)})"


def along(row: CompiledWay, steps: int, restarts: int, cache: str, caption: str = "") -> Drawing:
    """Net time along the job's steps, a tooth down at each restart, between the ends of its 95 %; eager is at 0."""
    places = _places(steps, restarts)
    net = [balance(row, done, n, cache).net_s for done, n in places]
    found = balance(row, steps, restarts, cache)
    unit, each_s = unit_of(max(max(abs(one.low), abs(one.high)) for one in net))

    def line(series: str, end: str, dashed: bool = True) -> Line:
        points = [(done, getattr(one, end) / each_s) for (done, _), one in zip(places, net, strict=True)]
        return Line(series, points, dashed=dashed)

    return lines(
        {"": [line(NET, "value", dashed=False), line("at least", "low"), line("at most", "high")]},
        Axis("steps", until=steps),
        Axis("saved so far, less all compiling so far", unit),
        title=f"After {steps:,} steps and {restarts} restarts, {lost_or_saved(found.net_s)}.",
        caption=caption or f"{row.model}, {row.way}. A tooth down is a restart",
        colours={NET: "blue", "at least": "grey", "at most": "grey"},
        references={"eager": (0, "orange")},
    )


def lost_or_saved(net: Interval) -> str:
    """``2.29 minutes (2.13 to 2.59) saved``."""
    return (
        f"{interval_text(net)} saved"
        if net.value >= 0
        else f"{interval_text(Interval(-net.value, -net.high, -net.low))} lost"
    )


def _places(steps: int, restarts: int) -> list[tuple[int, int]]:
    """Where the line is drawn: steps done, and restarts until then; two at each restart, before it and after."""
    if restarts > MOST_TEETH:
        return [(round(steps * part / 100), round(restarts * part / 100)) for part in range(101)]
    each = [round(steps * part / (restarts + 1)) for part in range(restarts + 2)]
    inner = max(1, 24 // (restarts + 1))
    places = []
    for number in range(restarts + 1):
        start, end = each[number], each[number + 1]
        places += [(start + round((end - start) * part / inner), number) for part in range(inner + 1)]
    return places


def scales(saved: Interval, paid: Interval) -> Drawing:
    """What all steps save above what all starts cost, on one axis, each with its interval."""
    unit, each_s = unit_of(max(abs(saved.high), abs(saved.low), paid.high))
    word = "steps save" if saved.value >= 0 else "steps lose"
    rows = []
    for name, one in ((word, saved), ("starts cost", paid)):
        low, value, high = sorted(abs(part) / each_s for part in (one.low, one.value, one.high))
        rows.append(Row(name, {name: value}, duration(abs(one.value)), spreads={name: (low, high)}))
    return segments(
        rows,
        Axis("in all", unit),
        title=f"All {word} {duration(abs(saved.value))}, and all starts cost {duration(paid.value)}.",
        colours={word: "blue", "starts cost": "orange"},
    )


def crossings(rows: Sequence[CompiledWay], caption: str = "", provenance: object | None = None) -> Drawing:
    """After how many steps each way has earned back a cold start, with its interval, on a logarithmic axis.

    An interval to the end of the axis may be never. Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("nothing to draw: give at least one CompiledWay")
    found = {f"{row.model}, {row.way}": balance(row, 0, shipped=True).break_even for row in rows}
    known = [n for three in found.values() for n in three if 0 < n < math.inf] or [1.0, 10.0]
    until = Axis(log=True).scale(known).until
    axis = Axis("steps until one start is earned back", log=True, until=until)
    drawn = []
    for name, (value, early, late) in found.items():
        behind = count(value) + " or never" * (value < late == math.inf)
        parts = {"earned back": value} if value < math.inf else {}
        spreads = {"earned back": (early, min(late, until))} if early < math.inf else {}
        drawn.append(Row(name, parts, behind, spreads=spreads))
    values = [value for value, *_ in found.values()]
    return dotted(
        drawn,
        axis,
        title=f"One start is earned back after {count(min(values))} to {count(max(values))} steps.",
        caption=caption,
        provenance=provenance,
        table=Table(
            ["model, way", "steps", "from", "to"], [[n, *map(count, t)] for n, t in found.items()], align="lrrr"
        ),
    )


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


def interval_text(one: Interval) -> str:
    """A time and its interval in one unit: ``3.21 hours (3.02 to 3.4)``."""
    unit, size = unit_of(max(abs(one.low), abs(one.high)))
    value, low, high = (significant(part / size) for part in (one.value, one.low, one.high))
    return f"{value} {unit} ({low} to {high})"
