"""After how many steps has compiling paid, and how sure is that? An interval, not a number.

What compiling costs is known once it is done. What it saves is a difference of two times that both vary from step to
step, and the break-even is the quotient: where the saving is small against its spread, the quotient can be anything.
So the samples of both ways are taken in turn, the saving is the median of their paired differences, and its interval
comes from a bootstrap: the same median of many samples drawn again from those that there are.
"""

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..doors import door
from ..recordings import RecordedRow

RESAMPLES = 2000
SURE = 0.95
LEAST_SAMPLES = 5
"""The median of fewer has hardly another value to take when it is drawn again."""


@dataclass(frozen=True)
class Payback(RecordedRow):
    """What compiling cost, what a step saves, with 95 % intervals; ``samples`` is how many pairs of steps were timed.

    ``low`` and ``high`` are the ends of the steps' interval; None is never. ``steps`` is the estimate itself.
    ``compile_runs_s`` are the times that compiling took, of which ``compile_s`` is the median and whose spread is in
    the interval of the steps.
    """

    compile_s: float
    eager_ms: float
    compiled_ms: float
    saved_ms: float
    saved_low_ms: float
    saved_high_ms: float
    samples: int
    steps: int | None
    low: int | None
    high: int | None
    compile_runs_s: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """ "pays": all of the saving's interval is above zero; "never": none of it; else "maybe never"."""
        if self.saved_low_ms > 0:
            return "pays"
        return "maybe never" if self.saved_high_ms > 0 else "never"

    def __str__(self) -> str:
        if self.verdict == "pays":
            return f"{self.steps:,} steps [{self.low:,} to {self.high:,}]"
        return "never" if self.low is None else f"never, or after {self.low:,} steps at the earliest"


@door
def payback(
    compile_s: float | Sequence[float], eager_ms: Sequence[float], compiled_ms: Sequence[float], seed: int = 0
) -> Payback:
    """The break-even of samples that were taken in turn: ``eager_ms[i]`` right before or after ``compiled_ms[i]``.

    ``compile_s`` is what compiling took, or several such times, which are then drawn again too. Raises ValueError for
    no samples or fewer than five, for as many of one way as not of the other, and for a time that is not positive and
    finite (``compile_s`` may be zero).

    >>> from compile_lab.modes.payback import payback
    >>> found = payback(10, eager_ms=[5.0, 5.1, 5.2, 4.9, 5.0], compiled_ms=[3.0, 3.1, 3.0, 3.0, 2.9])
    >>> print(f"{found.verdict}: {found}")
    pays: 5,000 steps [4,546 to 5,264]
    """
    compiles = [float(compile_s)] if isinstance(compile_s, int | float) else [float(each) for each in compile_s]
    _check("compile_s", compiles, zero=True)
    _check("eager_ms", eager_ms)
    _check("compiled_ms", compiled_ms)
    if len(eager_ms) != len(compiled_ms):
        raise ValueError(
            f"{len(eager_ms)} samples of eager steps and {len(compiled_ms)} of compiled ones: they are compared pair "
            "by pair, so time them in turn, one of each"
        )
    if len(eager_ms) < LEAST_SAMPLES:
        raise ValueError(f"{len(eager_ms)} samples say nothing of their spread; time at least {LEAST_SAMPLES} of each")
    saved = [eager - compiled for eager, compiled in zip(eager_ms, compiled_ms, strict=True)]
    draw = random.Random(seed)
    savings, steps = [], []
    for _ in range(RESAMPLES):
        saving = statistics.median(draw.choices(saved, k=len(saved)))
        savings.append(saving)
        steps.append(_steps(statistics.median(draw.choices(compiles, k=len(compiles))), saving))
    low_ms, high_ms = _ends(savings)
    first, last = _ends(steps)
    middle = statistics.median(saved)
    cost = statistics.median(compiles)
    return Payback(
        compile_s=round(cost, 4),
        eager_ms=round(statistics.median(eager_ms), 6),
        compiled_ms=round(statistics.median(compiled_ms), 6),
        saved_ms=round(middle, 6),
        saved_low_ms=round(low_ms, 6),
        saved_high_ms=round(high_ms, 6),
        samples=len(saved),
        steps=_whole(_steps(cost, middle)),
        low=_whole(first),
        high=_whole(last),
        compile_runs_s=tuple(round(each, 4) for each in compiles),
    )


@dataclass(frozen=True)
class Crossing(RecordedRow):
    """A break-even that was predicted from two short runs, and the one that two long runs came to.

    ``steps`` is where the sums of both runs' times really crossed; None if they had not when the run was ended.
    ``curve`` is the way there: (steps, seconds of eager, seconds of compiled with its compiling).
    """

    name: str
    what: str
    mode: str
    predicted: Payback
    compile_s: float
    steps: int | None
    curve: tuple[tuple[int, float, float], ...]
    clock: str
    stopped: str = ""

    @property
    def ratio(self) -> float | None:
        """The predicted steps over the real ones; None where either is not there."""
        return self.predicted.steps / self.steps if self.predicted.steps and self.steps else None

    def within(self, share: float) -> bool:
        """Whether the prediction is off by at most so large a share of the real crossing."""
        return self.ratio is not None and abs(self.ratio - 1) <= share


@door
def first_crossing(curve: Sequence[tuple[int, float, float]]) -> int | None:
    """After how many steps the second sum of seconds has become the smaller one for the first time; None if never.

    Between two points of the curve both sums grow evenly. Raises ValueError unless the steps grow from point to point.

    >>> from compile_lab.modes.payback import first_crossing
    >>> first_crossing([(100, 1.0, 5.0), (200, 2.0, 5.5), (1000, 10.0, 9.5)])
    900
    """
    if any(after[0] <= before[0] for before, after in itertools.pairwise(curve)):
        raise ValueError("the curve's steps must grow from point to point")
    before = (0, 0.0, math.inf)
    for point in curve:
        ahead = point[2] - point[1]
        if ahead <= 0:
            was = before[2] - before[1]
            share = was / (was - ahead) if math.isfinite(was) and was > ahead else 1.0
            return math.ceil(before[0] + share * (point[0] - before[0]))
        before = point
    return None


def _check(name: str, values: Sequence[float], zero: bool = False) -> None:
    if not values:
        raise ValueError(f"{name} has no samples: time some steps first")
    for value in values:
        if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
            raise ValueError(f"{name} has {value}: a time is positive and finite")


def _steps(compile_s: float, saved_ms: float) -> float:
    return compile_s * 1e3 / saved_ms if saved_ms > 0 else math.inf


def _whole(steps: float) -> int | None:
    return math.ceil(steps) if math.isfinite(steps) else None


def _ends(values: list[float]) -> tuple[float, float]:
    """The ends of the middle 95 % of what the resamples gave."""
    ordered = sorted(values)
    cut = round(len(ordered) * (1 - SURE) / 2)
    return ordered[cut], ordered[-1 - cut]
