"""GPT-2 124M's training steps started again on a GPU, where what is compiled is Triton's."""

from typing import Any

from ...registry import Progress
from . import starts

NAMES = (
    "artifacts, empty folder",
    "another constant",
    "cold, one compiler at a time",
    "killed while it trained, again",
    "the same folder",
    "another path",
    "another rank",
    "caches forbidden",
)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `starts.measured`, one start at a time: about six minutes on a large GPU."""
    return starts.measured(device, progress, NAMES)
