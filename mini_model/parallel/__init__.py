"""The training step on many devices: patterns by name, applied to an unchanged MiniGPT; training; checkpoints."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """The names of ``parallel.apply``, on first use: torch.distributed takes three seconds to import."""
    return getattr(importlib.import_module(f"{__name__}.apply"), name)
