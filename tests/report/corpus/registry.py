"""What the corpus is made of: a training step under a name, and the decorator that puts it there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Build = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class TrainingStep:
    """One of the corpus: ``kind`` says what it does, ``build`` makes the model, a batch, maybe an optimizer."""

    name: str
    kind: str
    build: Build = field(repr=False)


CORPUS: dict[str, TrainingStep] = {}


def step(name: str, kind: str) -> Callable[[Build], Build]:
    """Put a function without arguments into the corpus. What it returns is what ``report`` takes."""

    def put(build: Build) -> Build:
        CORPUS[name] = TrainingStep(name, kind, build)
        return build

    return put
