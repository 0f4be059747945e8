"""A step as one CUDA graph: the device launches its kernels, in the order and at the addresses of the capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class GraphMemory:
    """Memory that captured steps share. They must never run at the same time, and be captured on one stream."""

    pool: Any = field(default_factory=torch.cuda.graph_pool_handle)  # of a type that torch keeps private
    stream: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)


def captured(step: Callable[[], object], state: Sequence[Tensor], memory: GraphMemory) -> torch.cuda.CUDAGraph:
    """`step` as a graph, with `state` as it was before.

    A capture records and does not run; but what is recorded must have run before, because first calls compile kernels,
    make handles and choose algorithms. That run changes the state (weights, moments), which is put back.
    """
    before = [each.clone() for each in state]
    memory.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(memory.stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(memory.stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory.pool, stream=memory.stream):
        step()
    for each, was in zip(state, before, strict=True):
        each.copy_(was)
    return graph
