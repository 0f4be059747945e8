"""The recording ``capstone_seeds``: six more seeds of two rungs of ``capstone_losses``, for three could not decide."""

from typing import Any

from ...registry import Progress
from . import capstone_losses

RUNGS, SEEDS = ("hand", "all fp8"), (3, 4, 5, 6, 7, 8)
BUDGET_S = 400.0


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """What ``capstone_losses.record`` gives, of these rungs and seeds; six minutes on an H200."""
    return capstone_losses.record(device, progress, rungs=RUNGS, seeds=SEEDS, budget_s=budget_s)
