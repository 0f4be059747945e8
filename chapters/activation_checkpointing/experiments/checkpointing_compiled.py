"""The recording ``checkpointing_compiled``: checkpoints under torch.compile, and further memory budgets."""

from typing import Any

from ...registry import Progress
from . import checkpointing


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """As `checkpointing.record`, of its `COMPILED_STRATEGIES`. Three and a half minutes on a large GPU."""
    return checkpointing.record(device, progress, strategies=checkpointing.COMPILED_STRATEGIES)
