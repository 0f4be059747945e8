"""Does compiling pay for a whole job? What its steps save, less what its starts cost, and how sure that is.

A job starts once and is restarted so many times; each start compiles, and what that costs depends on what is left in
the caches. Both terms were measured, so both are intervals, and so is what follows from them. Plain Python.
"""

from __future__ import annotations

import functools
import json
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..doors import check_amount, check_whole, door

STORED = "paybacks.json"
ONCE = 2.0
"""How many times as long as another the same start may take: no two compilations of one program differed by more in the
recording ``payback``."""
CACHES = ("warm", "artifacts", "cold")
"""What a restart finds: the folder of the run before, what ``save_cache_artifacts`` kept, nothing."""


@dataclass(frozen=True)
class Interval:
    """A measured value and its 95 % interval, in one unit. Raises ValueError where the ends do not enclose the value.

    The two sides may differ in length.
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high or not math.isfinite(self.high - self.low):
            raise ValueError(f"{self.value:g} has the interval {self.low:g} to {self.high:g}: give low ≤ value ≤ high")

    @classmethod
    def from_quartiles(cls, median: float, low: float, high: float, samples: int) -> Interval:
        """The 95 % interval of the median of so many samples, from their quartiles, as if they were normal.

        Such a median's standard error is √(π / 2n) σ, and a quartile lies 0.674 σ away; each side has its own σ.
        """
        check_whole("samples", samples)
        each = 1.96 * math.sqrt(math.pi / 2 / samples) / 0.674
        return cls(median, median - each * (median - low), median + each * (high - median))

    @classmethod
    def once(cls, value: float) -> Interval:
        """A start's time above 0, measured a single time: another may take `ONCE` times as long, or as short."""
        return cls(value, value / ONCE, value * ONCE)

    @classmethod
    def of_runs(cls, median: float, runs: Sequence[float]) -> Interval:
        """The median of a time that was measured several times, and the shortest and the longest of them."""
        return cls(median, min(runs), max(runs)) if len(runs) > 1 else cls.once(median)

    def times(self, many: float) -> Interval:
        """As many of the same, from 0: what is wrong about one is wrong about all."""
        return Interval(many * self.value, many * self.low, many * self.high)

    def plus(self, other: Interval) -> Interval:
        """The sum of two whose errors are independent: the half-widths of a side add as squares."""
        value = self.value + other.value
        down = math.hypot(self.value - self.low, other.value - other.low)
        return Interval(value, value - down, value + math.hypot(self.high - self.value, other.high - other.value))

    def minus(self, other: Interval) -> Interval:
        """The difference of two whose errors are independent."""
        return self.plus(Interval(-other.value, -other.high, -other.low))


@dataclass(frozen=True)
class CompiledWay:
    """One model compiled in one way: what a step takes, what compiling saves of it, what a start costs.

    ``eager_ms`` and ``saved_ms`` are of one step; below 0, compiled steps are slower. ``starts_s`` has a start's
    seconds of compiling for each of `CACHES` that was measured; cold is always there. ``source`` says where it is from.
    """

    model: str
    way: str
    eager_ms: float
    saved_ms: Interval
    starts_s: Mapping[str, Interval]
    source: str = ""

    def __post_init__(self) -> None:
        if "cold" not in self.starts_s or (unknown := set(self.starts_s) - set(CACHES)):
            wrong = f"it has {sorted(unknown)[0]!r}" if "cold" in self.starts_s else "cold is not there"
            raise ValueError(f"starts_s of {self.model}: {wrong}; give cold, and what is known of {', '.join(CACHES)}")
        if not 0 < self.eager_ms < math.inf or self.saved_ms.value >= self.eager_ms:
            raise ValueError(
                f"a step of {self.eager_ms:g} ms of which {self.saved_ms.value:g} are saved: give a time above 0, and "
                "less than all of it"
            )
        check_amount("a start's seconds", *(start.low for start in self.starts_s.values()))

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> CompiledWay:
        """From plain values: intervals as [value, low, high]."""
        starts = {cache: Interval(*three) for cache, three in row["starts_s"].items()}
        return cls(**{**row, "saved_ms": Interval(*row["saved_ms"]), "starts_s": starts})

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` reads."""
        starts = {cache: _three(start) for cache, start in self.starts_s.items()}
        return {**vars(self), "saved_ms": _three(self.saved_ms), "starts_s": starts}


@dataclass(frozen=True)
class Balance:
    """What compiling is worth to one job. Seconds; negative is lost.

    ``break_even`` are the steps after which all of the job's starts are paid: the value, from when on they may be, and
    from when on they surely are; infinite where they never are. ``restarts`` is how many restarts use up what the steps
    save, in the same form.
    """

    saved_s: Interval
    compile_s: Interval
    net_s: Interval
    break_even: tuple[float, float, float]
    restarts: tuple[float, float, float]

    @property
    def verdict(self) -> str:
        """ "pays" or "loses" where the whole interval is on one side, else "undecided"."""
        return "pays" if self.net_s.low > 0 else "loses" if self.net_s.high < 0 else "undecided"


@door
def balance(way: CompiledWay, steps: int, restarts: int = 0, cache: str = "cold", *, shipped: bool = False) -> Balance:
    """What a job of so many steps and restarts gains or loses, where a restart finds that ``cache``.

    The first start is cold; with ``shipped`` it finds the cache, too. Steps' and starts' errors are independent of each
    other, so half-widths add as squares; what is wrong about one step is wrong about all of them.
    Raises ValueError for a cache that was not measured for this way, and for numbers that are none.

    >>> from compile_lab.simulator.payback import CompiledWay, Interval, balance
    >>> way = CompiledWay("a model", "default", 30, Interval(8, 7, 9), {"cold": Interval(20, 18, 24)})
    >>> for steps in (1_000, 2_500, 10_000):
    ...     print(steps, balance(way, steps).verdict)
    1000 loses
    2500 undecided
    10000 pays
    """
    check_whole("steps", steps, 0)
    check_whole("restarts", restarts, 0)
    if cache not in way.starts_s:
        raise ValueError(f"{way.model}, {way.way}: {cache!r} was not measured; there is {', '.join(way.starts_s)}")
    again = way.starts_s[cache]
    first = again if shipped else way.starts_s["cold"]
    saved = way.saved_ms.times(steps / 1e3)
    paid = again.times(restarts + 1) if shipped else first.plus(again.times(restarts))
    borne = _crossings(saved.minus(first), again)
    return Balance(saved, paid, saved.minus(paid), _crossings(paid, way.saved_ms.times(1e-3)), borne)


def _crossings(cost: Interval, each: Interval) -> tuple[float, float, float]:
    """How many of ``each`` pay ``cost``: the value, and from where on they may have, and surely have.

    The ends are where the interval of the difference, n · each − cost, leaves 0: Fieller's interval of a ratio.
    """

    def left(n: float) -> Interval:
        return each.times(n).minus(cost)

    value = max(0.0, cost.value / each.value) if each.value > 0 else math.inf
    return value, min(value, _first(lambda n: left(n).high)), max(value, _first(lambda n: left(n).low))


def _first(gain: Callable[[float], float]) -> float:
    """The least n ≥ 0 from which ``gain`` is not below 0, to twelve figures; infinite where no n up to 1e15 is."""
    if gain(0.0) >= 0:
        return 0.0
    above = next((2.0**power for power in range(-10, 50) if gain(2.0**power) >= 0), math.inf)
    below = 0.0
    while above < math.inf and above - below > 1e-12 * above:
        middle = (below + above) / 2
        below, above = (below, middle) if gain(middle) >= 0 else (middle, above)
    return above


def _three(interval: Interval) -> list[float]:
    return [interval.value, interval.low, interval.high]


@functools.cache
def stored() -> tuple[CompiledWay, ...]:
    """What was recorded, stored beside this module for pages that have no recordings."""
    text = pkgutil.get_data(__package__, STORED) or b""  # from a zip, too
    return tuple(CompiledWay.from_json(row) for row in json.loads(text))
