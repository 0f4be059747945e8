"""Exercises of chapter 20, is it right?"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..exercises.judging import exercise

EAGER, MOVED, COMPILED = 3e-7, (2e-7, 4e-7, 3e-7, 3e-7), 9.6e-6
"""Errors of one gradient against float64: eager's, those of four runs with moved operands, the compiled one's."""


@exercise("20.1", takes=float)
def units_of_rounding(answer: float) -> str | None:
    """The compiled error, in units of the root mean square of the five others."""
    unit = (sum(each * each for each in (EAGER, *MOVED)) / 5) ** 0.5
    if abs(answer * unit / COMPILED - 1) < 0.02:
        return None
    if abs(answer * sum((EAGER, *MOVED)) / 5 / COMPILED - 1) < 0.01:
        return "that is in units of the mean: square the errors, take their mean, and its root."
    return f"a unit of {unit:.2g} fits how often into {COMPILED:g}?"


@dataclass(frozen=True)
class Result:
    """One number of a step: exact, as eager mode gives it, in four runs with moved operands, and compiled."""

    what: str
    exact: float
    eager: float
    moved: Sequence[float]
    compiled: float
    right: str


def results() -> Iterator[Result]:
    """Rounding and faults, large and small; and one that hangs on a last bit."""
    draw = random.Random(20)

    def made(what: str, exact: float, noise: float, off: float, right: str) -> Result:
        eager, *moved = (exact + draw.choice([-1, 1]) * noise * draw.uniform(0.6, 1.4) for _ in range(5))
        return Result(what, exact, eager, moved, exact + off, right)

    yield made("a loss that is 2e-7 off, where eager's runs are as far off", 2.31, 2e-7, -2e-7, "rounding")
    yield made("a sum that cancels: 0.08 off, and so are eager's runs", 0.001, 0.07, 0.08, "rounding")
    yield made("a gradient of 1e-5 that is 0", 1e-5, 1e-12, -1e-5, "fault")
    yield made("a gradient that is a thousandth too large", 1.0, 1e-7, 1e-3, "fault")
    yield made("a large number, off by 1 of a million", 1e6, 0.3, 1.0, "rounding")
    yield Result(
        "a bucket that changes when operands move by an ulp", 7.0, 7.0, (7.0, 8.0, 7.0, 8.0), 8.0, "cannot tell"
    )


@exercise("20.3", takes=Callable)
def rounding_or_fault(answer: Callable[..., str]) -> str | None:
    """verdict(exact, eager, moved, compiled): "rounding", "fault" or "cannot tell"."""
    for each in results():
        got = answer(each.exact, each.eager, list(each.moved), each.compiled)
        if got not in ("rounding", "fault", "cannot tell"):
            return f"it returns {got!r}; this asks for 'rounding', 'fault' or 'cannot tell'."
        if got != each.right:
            return f"for {each.what}, it says {got!r}."
    return None
