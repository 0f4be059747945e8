"""Exercises of chapter 16, return on investment."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import exercise

STEPS, EAGER_MS, COMPILED_MS, COLD_S, WARM_S = 20_000, 100, 80, 60, 10


@exercise("16.1", takes=int)
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


@exercise("16.2", takes=Callable)
def verdict_on_samples(answer: Callable[..., str]) -> str | None:
    """verdict(compile_s, eager_ms, compiled_ms, steps): "pays", "loses" or "cannot tell"."""
    for trial in trials():
        got = answer(trial.compile_s, trial.eager_ms, trial.compiled_ms, trial.steps)
        if got not in ("pays", "loses", "cannot tell"):
            return f"it returns {got!r}; this asks for 'pays', 'loses' or 'cannot tell'."
        if got != trial.right:
            return f"with {trial.what}, it says {got!r}."
    return None


def _variance_by_hand(x: Tensor) -> Tensor:
    return (x + 100).square().mean(-1) - (x + 100).mean(-1).square()


def _logsumexp_by_hand(x: Tensor) -> Tensor:
    return x.exp().sum(-1).log()


PAIRS: dict[str, tuple[Callable, Callable, Callable, str]] = {
    "the same sum in bfloat16 and in float32": (
        lambda x: x.sum(-1),
        lambda x: x.bfloat16().sum(-1).float(),
        lambda x: x.sum(-1),
        "second",
    ),
    "a variance, by its definition and as a mean of squares less the square of the mean": (
        _variance_by_hand,
        lambda x: (x + 100).var(-1, correction=0),
        _variance_by_hand,
        "first",
    ),
    "a logarithm of a sum": (
        lambda x: (60 * x).logsumexp(-1),
        lambda x: _logsumexp_by_hand(60 * x),
        lambda x: (60 * x).logsumexp(-1),
        "second",
    ),
    "two that are the same": (lambda x: x.tanh(), lambda x: x.tanh(), lambda x: x.tanh(), "neither"),
}
"""The mathematics, two ways to compute it, and which is closer. One of the third's overflows."""


@exercise("16.3", takes=Callable)
def nearer_to_the_truth(answer: Callable[..., str]) -> str | None:
    """closer(exact, first, second, x): "first", "second" or "neither", for a float32 x."""
    x = torch.randn(64, 128, generator=torch.Generator().manual_seed(16))
    for name, (exact, first, second, right) in PAIRS.items():
        got = answer(exact, first, second, x.clone())
        if got not in ("first", "second", "neither"):
            return f"it returns {got!r}; this asks for 'first', 'second' or 'neither'."
        if got != right:
            return f"for {name} it says {got!r}."
    return None


@dataclass(frozen=True)
class CachedProgram:
    """What a cache is asked for: a function's source, its inputs, the compiler's flags, and where all this happens."""

    source: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    flags: dict[str, object]
    torch: str
    chip: str
    path: str
    rank: int


BASE = CachedProgram(
    "def step(x, w):\n    y = x @ w\n    return y * 2 + x\n",
    ((64, 64), (64, 64)),
    ("float32", "float32"),
    {"max_autotune": False, "epilogue_fusion": True},
    "2.13.0",
    "H200",
    "/jobs/1/train.py",
    0,
)
SAME: dict[str, dict] = {
    "started again": {},
    "another folder": {"path": "/jobs/2/train.py"},
    "another rank": {"rank": 3},
    "its flags named in another order": {"flags": {"epilogue_fusion": True, "max_autotune": False}},
    "a comment added": {"source": "def step(x, w):\n    # twice\n    y = x @ w\n    return y * 2 + x\n"},
    "a variable renamed": {"source": "def step(x, w):\n    product = x @ w\n    return product * 2 + x\n"},
}
OTHER: dict[str, dict] = {
    "3 in the place of 2": {"source": "def step(x, w):\n    y = x @ w\n    return y * 3 + x\n"},
    "w added, not x": {"source": "def step(x, w):\n    y = x @ w\n    return y * 2 + w\n"},
    "x and w exchanged": {"source": "def step(x, w):\n    y = w @ x\n    return y * 2 + x\n"},
    "2.0 in the place of 2": {"source": "def step(x, w):\n    y = x @ w\n    return y * 2.0 + x\n"},
    "bfloat16": {"dtypes": ("bfloat16", "bfloat16")},
    "another length": {"shapes": ((128, 64), (64, 64))},
    "max_autotune on": {"flags": {"max_autotune": True, "epilogue_fusion": True}},
    "another torch": {"torch": "2.11.0"},
    "another chip": {"chip": "H100"},
}
"""Changes that leave the compiled code as it is, and changes that do not."""


@exercise("16.4", takes=Callable)
def key_of_a_program(answer: Callable) -> str | None:
    """key(program): equal for programs that compile to the same code, different for all others."""
    own = answer(BASE)
    try:
        hash(own)
    except TypeError:
        return f"the key is a {type(own).__name__}, which no dictionary takes as a key."
    for what, change in OTHER.items():
        if answer(_changed(change)) == own:
            return f"a wrong hit: with {what}, it gives the code of the program without."
    for what, change in SAME.items():
        if answer(_changed(change)) != own:
            return f"no wrong hits; but a needless miss: the same program, {what}, is compiled again."
    return None


def _changed(change: dict) -> CachedProgram:
    return CachedProgram(**{**vars(BASE), **change})
