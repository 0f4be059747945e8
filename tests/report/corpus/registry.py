"""Where the corpus is: what makes each training step, under its name."""

from collections.abc import Callable
from typing import Any

Build = Callable[[], tuple[Any, ...]]
CORPUS: dict[str, Build] = {}


def step(name: str, kind: str) -> Callable[[Build], Build]:
    """Put a function without arguments into the corpus. What it returns is what ``report`` takes; ``kind`` says why."""

    def put(build: Build) -> Build:
        CORPUS[name], build.__doc__ = build, kind
        return build

    return put
