"""All starts of MiniGPT's training step on a CPU, where what is compiled is C++."""

from typing import Any

from . import restarts
from .registry import Progress

ONE = "cold, one compiler at a time"
"""On a CPU that is what cold is."""


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `restarts.record` on "cpu", one start at a time: about four minutes."""
    return restarts.record("cpu", progress, names=tuple(name for name in restarts.STARTS if name != ONE))
