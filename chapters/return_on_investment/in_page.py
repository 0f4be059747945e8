"""Exercises of chapter 19, return on investment."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..exercises.judging import exercise

STEPS, EAGER_MS, COMPILED_MS, COLD_S, WARM_S = 20_000, 100, 80, 60, 10


@exercise("19.1", takes=int)
def restarts_that_undo(answer: int) -> str | None:
    """How many warm restarts use up all that 20,000 compiled steps save."""
    left_s = STEPS * (EAGER_MS - COMPILED_MS) / 1e3 - COLD_S - WARM_S * answer
    if left_s:
        return f"then {abs(left_s):g} s {'are still saved' if left_s > 0 else 'are lost already'}."
    return None


@dataclass(frozen=True)
class Trial:
    """Interleaved samples of eager and compiled steps, and what an honest judge says of them."""

    what: str
    compile_s: float
    eager_ms: Sequence[float]
    compiled_ms: Sequence[float]
    steps: int
    right: str


def trials() -> Iterator[Trial]:
    """A clear gain, early and late; none; one in the noise; one on a machine that slows down; one with rare stops."""
    draw = random.Random(16)

    def made(saved: float, noise: float, slope: float = 0.0, stops: float = 0.0) -> tuple[list[float], list[float]]:
        slow = [slope * at for at in range(60)]
        stopped = [1_000 * (draw.random() < stops) for _ in range(120)]
        eager = [100 + s + draw.gauss(0, noise) + stopped[at] for at, s in enumerate(slow)]
        return eager, [100 - saved + s + draw.gauss(0, noise) + stopped[60 + at] for at, s in enumerate(slow)]

    yield Trial("a gain of 20 ms, and a long job", 60, *made(20, 1), 100_000, "pays")
    yield Trial("a gain of 20 ms, and 100 steps", 60, *made(20, 1), 100, "loses")
    yield Trial("compiled steps that are 1 ms slower", 60, *made(-1, 0.1), 1_000_000, "loses")
    yield Trial("a gain that drowns in the noise", 60, *made(0.5, 5), 100_000, "cannot tell")
    yield Trial("a machine that gets slower and slower, and a gain of 4 ms", 60, *made(4, 0.3, 2), 100_000, "pays")
    yield Trial("a stop of a second every now and then, and a gain of 4 ms", 60, *made(4, 0.3, 0, 0.1), 100_000, "pays")


@exercise("19.2", takes=Callable)
def verdict_on_samples(answer: Callable[..., str]) -> str | None:
    """verdict(compile_s, eager_ms, compiled_ms, steps): "pays", "loses" or "cannot tell"."""
    for trial in trials():
        got = answer(trial.compile_s, trial.eager_ms, trial.compiled_ms, trial.steps)
        if got not in ("pays", "loses", "cannot tell"):
            return f"it returns {got!r}; this asks for 'pays', 'loses' or 'cannot tell'."
        if got != trial.right:
            return f"with {trial.what}, it says {got!r}."
    return None
