"""The recording ``capstone_head_seeds``: is it still the same training with the head's gradients in fp8? Nine seeds."""

from typing import Any

from ...registry import Progress
from . import capstone_losses

RUNGS, SEEDS = ("fp8 + head",), (*range(9),)
BUDGET_S = 300.0


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """What ``capstone_losses.record`` gives, of this rung and these seeds; four minutes on an H200."""
    return capstone_losses.record(device, progress, rungs=RUNGS, seeds=SEEDS, budget_s=budget_s)
