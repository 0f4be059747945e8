"""Training steps as people write them, small, with random weights: what a report on torch.compile has to cope with.

Sixty were chosen before the first of them was tried; here is one of each kind. Each is written from what a paper says,
in the way of somebody who has never compiled it: noise is drawn in the forward, a queue is written to, a branch asks a
value. An entry returns ``(model, batch)`` or ``(model, batch, optimizer)``, as a reader hands them over.
"""

from typing import Any

import torch

from . import generative, habits, language, physics, vision  # noqa: F401  puts their steps there
from .registry import CORPUS


def made(name: str) -> tuple[Any, ...]:
    """The step ``name`` in training mode with a batch of it, and with its optimizer where it has one of its own."""
    torch.manual_seed(0)
    return CORPUS[name]()


__all__ = ["CORPUS", "made"]
