"""MiniGPT's training steps started again on a CPU, where what is compiled is C++."""

from typing import Any

from ...registry import Progress
from . import starts

NAMES = (
    "artifacts, empty folder",
    "another constant",
    "another option",
    "another batch size",
    "killed while it trained, again",
    "the same folder",
    "another path",
    "AOTAutograd's cache off",
    "three comment lines above",
    "a name changed",
    "another rank",
    "caches forbidden",
)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `starts.measured` on "cpu", one start at a time: about five minutes on idle cores."""
    return starts.measured("cpu", progress, NAMES)
