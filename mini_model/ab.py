"""Has compiling paid, in this job? ``check(eager_step, compiled_step, steps)`` times both in turn and says so.

It needs nothing but Python and what it is given: copy this file into a job of your own. A step must do what a step of
the job does, and must leave the weights as they were. The clock waits for a GPU before and after each step.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class ABCheck:
    """What compiling cost and what a step saves, with the 95 % interval of the latter. Prints as a verdict."""

    compile_s: float
    eager_ms: float
    saved_ms: float
    low_ms: float
    high_ms: float
    steps: int

    @property
    def net_s(self) -> tuple[float, float]:
        """Seconds that compiling gained in so many steps, or lost if negative: the ends of their interval."""
        low, high = (self.steps * saved / 1e3 - self.compile_s for saved in (self.low_ms, self.high_ms))
        return low, high

    def __str__(self) -> str:
        cost = f"compiling took {self.compile_s:.1f} s this time; a step takes {self.eager_ms:.3g} ms in eager mode"
        if self.low_ms <= 0 <= self.high_ms:
            spread = f"{self.saved_ms:.2g} ms less, 95 %: {self.low_ms:.2g} to {self.high_ms:.2g}"
            return f"{cost}, and compiled it was not told apart from that ({spread}): nothing shows that it ever pays"
        if self.high_ms < 0:
            more = f"{-self.saved_ms:.2g} ms more compiled (95 %: {-self.high_ms:.2g} to {-self.low_ms:.2g})"
            return f"{cost}, and {more}: compiling never pays"
        first, last = (round(self.compile_s * 1e3 / saved) for saved in (self.high_ms, self.low_ms))
        low, high = self.net_s
        after = f"it paid: {low:.1f} to {high:.1f} s gained in" if low > 0 else "it may have paid in"
        after = f"it has not paid: {-high:.1f} to {-low:.1f} s lost in" if high < 0 else after
        less = f"{self.saved_ms:.2g} ms less compiled (95 %: {self.low_ms:.2g} to {self.high_ms:.2g})"
        return f"{cost}, and {less}: such a start pays after {first:,} to {last:,} steps, and {after} {self.steps:,}"


def check(
    eager: Callable[[], object],
    compiled: Callable[[], object],
    steps: int,
    first_s: float | None = None,
    pairs: int = 15,
) -> ABCheck:
    """Times `pairs` steps of each in turn. `first_s`: what the first compiled step took, if it is over; else it is now.

    ValueError for fewer than five pairs, of which no spread can be told, and for fewer steps than one.
    """
    if steps < 1 or pairs < 5:
        raise ValueError(f"steps={steps}, pairs={pairs}: compare at least 1 step, in at least 5 pairs")
    eager()
    first_s = _seconds(compiled) if first_s is None else first_s
    times = [(_seconds(eager), _seconds(compiled)) for _ in range(pairs)]
    saved_ms = [1e3 * (one - other) for one, other in times]
    middle = statistics.median(compiled for _, compiled in times)
    draw = Random(0)
    again = sorted(statistics.median(draw.choices(saved_ms, k=pairs)) for _ in range(1000))
    return ABCheck(
        compile_s=max(0.0, first_s - middle),
        eager_ms=1e3 * statistics.median(eager for eager, _ in times),
        saved_ms=statistics.median(saved_ms),
        low_ms=again[25],
        high_ms=again[974],
        steps=steps,
    )


def _seconds(step: Callable[[], object]) -> float:
    _wait()  # for what was launched before
    begin = time.perf_counter()
    step()
    _wait()  # or only launches would be timed
    return time.perf_counter() - begin


def _wait() -> None:
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        torch.cuda.synchronize()
