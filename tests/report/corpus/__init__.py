"""Training steps as people write them, small, with random weights: what a report on torch.compile has to cope with.

The list was chosen before the first of them was tried. Each is written from what a paper says, in the way of somebody
who has never compiled it: noise is drawn in the forward, a queue is written to, a branch asks a value. An entry returns
``(model, batch)`` or ``(model, batch, optimizer)``, as a reader hands them over; ``made(name)`` builds one. Nothing is
downloaded.
"""

from typing import Any

import torch
from torch import nn

from . import generative, graphs, habits, language, physics, vision
from .registry import CORPUS, TrainingStep

DOMAINS = (generative, language, vision, graphs, physics, habits)
"""The modules whose steps are in the corpus."""


def made(name: str) -> tuple[nn.Module, Any] | tuple[nn.Module, Any, torch.optim.Optimizer]:
    """The step ``name`` in training mode with a batch of it, and with its optimizer where it has one of its own.

    KeyError for a name that is not in the corpus.
    """
    if name not in CORPUS:
        raise KeyError(f"{name!r} is none of the corpus; it holds {', '.join(CORPUS)}")
    torch.manual_seed(0)
    return CORPUS[name].build()


__all__ = ["CORPUS", "TrainingStep", "made"]
