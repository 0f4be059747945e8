"""The recording ``patterns_wide``: the patterns again, for the wide model alone, where sending weighs most."""

from typing import Any

from ...registry import Progress
from ...shared.experiments import patterns


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `patterns.record`. Two minutes on four large GPUs."""
    return patterns.record(device, progress, cases=patterns.WIDE)
