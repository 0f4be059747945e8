"""Exercises of chapter 06, compile modes."""

from collections.abc import Callable

import torch

from compile_lab.dynamo.tracing import trace

from ..exercises.judging import exercise


@exercise("06.4", takes=Callable)
def leaves_its_input_alone(answer: Callable) -> str | None:
    """normalised(x): rows centred, divided by their deviation, doubled; the input unchanged, one graph."""
    x = torch.linspace(-1, 2, 12).view(3, 4) ** 3
    given = x.clone()
    found = trace(answer, given)
    centred = x - x.mean(-1, keepdim=True)
    if not torch.allclose(torch.as_tensor(found.result), 2 * centred / centred.std(-1, keepdim=True), atol=1e-5):
        return "the result is not that of the starter."
    if not torch.equal(given, x):
        return "the input is still changed, so CUDA graphs would still be skipped."
    return None if len(found.graphs) == 1 else f"Dynamo made {len(found.graphs)} graphs of it."
