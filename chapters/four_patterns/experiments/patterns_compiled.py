"""The recording ``patterns_compiled``: the patterns again, each block of the model compiled."""

from typing import Any

from ...registry import Progress
from ...shared.experiments import patterns


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `patterns.record`, with torch.compile in its default mode. Three minutes on two large GPUs."""
    return patterns.record(device, progress, mode="default", cases=patterns.COMPILED)
