"""The recording ``numerics_cpu``: operators and chains again, by C++ that Inductor writes for a CPU."""

from typing import Any

from ...registry import Progress
from . import numerics

PARTS = ("operators", "chains", "masks", "alone")


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `numerics.record`, without the training runs, which a notebook does by itself. Two minutes on two cores."""
    return numerics.record(device, progress, parts=PARTS)
