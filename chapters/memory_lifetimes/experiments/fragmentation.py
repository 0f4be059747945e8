"""What steps of varying and of equal size ask of an allocator: the requests of a MiniGPT's eager steps."""

from collections.abc import Sequence

from compile_lab.memory.caching import Request, requests
from compile_lab.memory.eager import eager_lifetimes

from ...shared import subjects

BATCHES = {"varying": (8, 12, 10, 14, 9, 16, 11, 15), "padded": 8 * (16,)}
"""Sequences in each step."""
SIZES = {"layers": 2, "dim": 256, "heads": 4, "vocabulary": 8192}


def demand(batches: Sequence[int]) -> list[list[Request]]:
    """The requests of one eager step for each batch, of a MiniGPT with a vocabulary of 8,192; made on a CPU."""
    model = subjects.minigpt("mini", "cpu", **SIZES)
    steps = {}
    for batch in set(batches):
        given = subjects.tokens(model, batch)
        steps[batch] = eager_lifetimes(lambda: model(*given).backward(), model)  # noqa: B023, for it is called at once
        model.zero_grad()
    return requests(steps[batch] for batch in batches)
