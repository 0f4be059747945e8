"""What does a graph break cost in time? The same chain of pointwise ops, cut into more and more pieces.

A pointwise chain is the case in which a break hurts most: whole, it is one kernel that reads and writes memory
once; each cut adds a kernel, a pass over memory, a resume function and its guards.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from compile_lab._torch.dynamo import graph_break, reset_dynamo
from compile_lab.measure.timing import samples_us, summary_us

from ...registry import Progress

OPS = 24
SIZES = {"cuda": (1 << 12, 1 << 27), "cpu": (1 << 12, 1 << 22)}
"""Elements of a small and a large tensor."""
BREAKS = (0, 1, 3, 7)
"""Numbers of breaks that cut eight pieces of three ops into equal graphs."""


def _piece(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 1.01 + 0.01)


def chain(breaks: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of 24 pointwise ops on a tensor of any shape, with ``breaks`` graph breaks evenly between them.

    Written out line by line: a break inside a loop would leave the whole function to Python.
    Raises ValueError for a number of breaks that does not cut the chain evenly.
    """
    if breaks not in BREAKS:
        raise ValueError(f"chain is cut evenly by {BREAKS} breaks, not by {breaks!r}")
    often, now_and_then, once = breaks >= 7, breaks >= 3, breaks >= 1

    def run(x: torch.Tensor) -> torch.Tensor:
        x = _piece(x)
        if often:
            graph_break()
        x = _piece(x)
        if now_and_then:
            graph_break()
        x = _piece(x)
        if often:
            graph_break()
        x = _piece(x)
        if once:
            graph_break()
        x = _piece(x)
        if often:
            graph_break()
        x = _piece(x)
        if now_and_then:
            graph_break()
        x = _piece(x)
        if often:
            graph_break()
        return _piece(x)

    return run


def record(device: str, progress: Progress = iter, *, sizes: Iterable[int] | None = None) -> dict[str, Any]:
    """Time per call of the chain, eager and compiled with 0 to 7 breaks, for tensors of `sizes`.

    Returns ``{"ops", "rows": [{"numel", "breaks" (None: eager), "median_us", "low_us", "high_us"}]}``: microseconds
    a call, median and quartiles of 25 samples. Takes half a minute.
    """
    rows = []
    for numel, breaks in progress([(n, b) for n in sizes or SIZES[device] for b in (None, *BREAKS)]):
        reset_dynamo()
        fn = chain(0) if breaks is None else torch.compile(chain(breaks))
        x = torch.rand(numel, device=device, generator=torch.Generator(device).manual_seed(0))
        with torch.no_grad():
            taken = samples_us(functools.partial(fn, x), device)
        rows.append({"numel": numel, "breaks": breaks, **summary_us(taken)})
    reset_dynamo()
    return {"ops": OPS, "rows": rows}
