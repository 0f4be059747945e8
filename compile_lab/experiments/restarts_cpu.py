"""The starts that matter most, of MiniGPT's training step on a CPU: where what is compiled is C++."""

from typing import Any

from . import restarts
from .registry import Progress

NAMES = (
    "artifacts, empty folder",
    "another constant",
    "the same folder",
    "AOTAutograd's cache off",
    "caches forbidden",
)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `restarts.record` on "cpu", one start at a time: about two minutes on idle cores."""
    return restarts.record("cpu", progress, names=NAMES)
