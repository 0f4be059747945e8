"""Exercises of chapter 19, return on investment."""

from collections.abc import Callable
from dataclasses import dataclass

from ..exercises.judging import exercise


@dataclass(frozen=True)
class CachedProgram:
    """What a cache is asked for: a function's source, its inputs, the compiler's flags, and where all this happens."""

    source: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    flags: dict[str, object]
    torch: str
    chip: str
    device: str
    path: str
    rank: int


BASE = CachedProgram(
    "def step(x, w):\n    y = x @ w\n    return y * 2 + x\n",
    ((64, 64), (64, 64)),
    ("float32", "float32"),
    {"max_autotune": False, "epilogue_fusion": True},
    "2.13.0",
    "H200",
    "cuda:0",
    "/jobs/1/train.py",
    0,
)


SAME: dict[str, dict] = {
    "started again": {},
    "another folder": {"path": "/jobs/2/train.py"},
    "another rank on the same device": {"rank": 3},
    "its flags named in another order": {"flags": {"epilogue_fusion": True, "max_autotune": False}},
    "a comment added": {"source": "def step(x, w):\n    # twice\n    y = x @ w\n    return y * 2 + x\n"},
    "a variable renamed": {"source": "def step(x, w):\n    hidden = x @ w\n    return hidden * 2 + x\n"},
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
    "another GPU of the same machine": {"device": "cuda:1"},
}
"""Changes that leave the compiled code as it is, and changes that do not."""


@exercise("19.3", takes=Callable)
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
    called = {answer(_changed({"source": f"def step(x, w):\n    return {name}(x @ w)\n"})) for name in ("max", "min")}
    if len(called) == 1:
        return "a wrong hit: max(x @ w) gets the code of min(x @ w)."
    for what, change in SAME.items():
        if answer(_changed(change)) != own:
            return f"no wrong hits; but a needless miss: the same program, {what}, is compiled again."
    return None


def _changed(change: dict) -> CachedProgram:
    return CachedProgram(**{**vars(BASE), **change})
