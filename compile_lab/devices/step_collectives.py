"""Which collectives does a compiled step hold, how large are they, and what lies between their starts and their waits?

Asked of the code that Inductor writes: after its passes have joined collectives and moved them. On CPU ranks, real or
pretended, the code also runs; for GPUs that are not here it is written alone.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from .. import virtual_gpu
from .._torch.dispatcher import without_fakes
from .._torch.dynamo import reset_dynamo
from .._torch.inductor import generated_graphs
from ..doors import door
from ..inductor.wrapper import Returned, Started, Wrapper
from ..simulator.overlap import Overlap
from ..simulator.wire import COLLECTIVES, step_of
from .collectives import fake_process_group
from .compiled_collectives import BUCKETED, REORDERED, order

_A = "aten_distributed_optimizations."
SCHEDULED_BY_TIMES = {f"{_A}enable_overlap_scheduling": True}
"""Inductor's option: order the whole graph by what matmuls, run once, and collectives are estimated to take. For GPUs
alone."""

SCHEDULED = SCHEDULED_BY_TIMES | {f"{_A}compute_estimator": "analytical"}
"""The same where no GPU is there to run a matmul."""

BUCKETS_THAT_STAY_HIDDEN = {f"{_A}collective_bucketing": True}
"""Inductor's option in addition to these: join the collectives that stay hidden."""

WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "reordered": REORDERED,
    "bucketed": BUCKETED,
    "scheduled": SCHEDULED,
    "scheduled in buckets": SCHEDULED | BUCKETS_THAT_STAY_HIDDEN,
}
"""Inductor's options, by what they do to the collectives of a graph."""


def in_buckets(megabytes: float) -> dict[str, Any]:
    """Inductor's options: join collectives into buckets of at most so many MB of 2²⁰ bytes, then move the buckets.

    A collective that is larger stays alone.
    Raises ValueError for a size that is not above 0.
    """
    if not megabytes > 0:
        raise ValueError(f"megabytes={megabytes}: a bucket holds more than 0 bytes")
    every_bucket = functools.partial(_size_of, megabytes)  # no lambda: the options are part of Inductor's cache key
    sizes = dict.fromkeys((f"{option}_bucket_size_determinator" for option in BUCKETED), every_bucket)
    return BUCKETED | sizes | REORDERED


def _size_of(megabytes: float, bucket: int) -> float:
    return megabytes


_GROUP = re.compile(r", (\d+), '[^']*'")  # how many ranks a collective joins, before the group's name


@dataclass(frozen=True)
class GraphCollective:
    """One collective in a compiled graph."""

    kind: str
    """"all_gather", "reduce_scatter" or "all_reduce"; "collective" for another."""
    nbytes: int | None
    """Of the larger side: what an all-gather gives, what a reduce-scatter takes. None where a size is a symbol."""
    dtype: str
    start: int
    """Its place in the graph's order, and that of its wait."""
    wait: int
    matmuls: int
    """Matmuls between the two: what can hide it."""


@dataclass(frozen=True)
class GraphOrder:
    """One graph of a compiled step: what it starts, awaits and computes, in order; and what it gives back."""

    order: tuple[str, ...]
    """As `compiled_collectives.order` reads it: "AG0", "w0", "MM", "k"."""
    collectives: tuple[GraphCollective, ...] = field(repr=False)
    returned_nbytes: int = field(repr=False)
    """Bytes of the buffers that it made and gives back: a forward's are what is kept for the backward."""

    @property
    def matmuls(self) -> int:
        return self.order.count("MM")

    @property
    def nbytes(self) -> int:
        """Of all collectives. Where a size is a symbol, it is left out."""
        return sum(each.nbytes or 0 for each in self.collectives)

    @property
    def covered_nbytes(self) -> int:
        """Of those with a matmul between start and wait: no more than these can be hidden."""
        return sum(each.nbytes or 0 for each in self.collectives if each.matmuls)

    @property
    def in_flight_nbytes(self) -> int:
        """The most that is started and not awaited yet, at one time: memory that waiting would have put off."""
        places = range(len(self.order))
        return max((sum(c.nbytes or 0 for c in self.collectives if c.start <= at < c.wait) for at in places), default=0)

    def count(self, kind: str) -> int:
        """How many of a kind: "all_gather", "reduce_scatter", "all_reduce"."""
        return sum(each.kind == kind for each in self.collectives)

    def on_wire(self, matmul_ms: float, bytes_per_ms: float, start_ms: float = 0.0) -> Overlap:
        """On paper: each matmul takes `matmul_ms`, a collective `start_ms` and its bytes over the wire's speed.

        Raises ValueError for a wire without speed, and as `simulator.wire.step_of` does.
        """
        if not bytes_per_ms > 0:
            raise ValueError(f"bytes_per_ms={bytes_per_ms}: a wire carries more than 0 bytes in a millisecond")
        times = [start_ms + (each.nbytes or 0) / bytes_per_ms for each in self.collectives]
        return step_of(self.order, matmul_ms, times)


@dataclass(frozen=True)
class StepCollectives:
    """The graphs of a compiled step, the forward first."""

    graphs: tuple[GraphOrder, ...]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.graphs)

    @property
    def covered_nbytes(self) -> int:
        return sum(each.covered_nbytes for each in self.graphs)

    def count(self, kind: str) -> int:
        return sum(each.count(kind) for each in self.graphs)


@door
def on_virtual_gpus(
    build: Callable[[DeviceMesh], Callable[[], Any]],
    devices: int = 8,
    options: Mapping[str, Any] | None = None,
    chip: str = "H200",
) -> StepCollectives:
    """The same for GPUs that are not here: Inductor's code for rank 0 of so many, written and never run.

    ``build(mesh)`` is called in a child process (`virtual_gpu.run`) with a mesh of pretended GPUs. It shards a model on
    "cuda", compiles it and returns the step. `options` are Inductor's: `WAYS`, or others.
    Raises as `virtual_gpu.run` does.

    A chip that is not known is refused before a child is started:

    >>> from compile_lab.devices.step_collectives import on_virtual_gpus
    >>> on_virtual_gpus(lambda mesh: print, chip="H300")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    graphs = virtual_gpu.run(chip, _in_a_child, build, devices, config=dict(options or {}))
    return StepCollectives(tuple(_read(source, sizes) for source, sizes in graphs))


def _in_a_child(build: Callable[[DeviceMesh], Callable[[], Any]], devices: int) -> list[Any]:
    reset_dynamo()
    with fake_process_group(devices):
        with without_fakes():  # a mesh reads its ranks' numbers
            mesh = DeviceMesh("cuda", list(range(devices)))
        return generated_graphs(build(mesh))


def _read(source: str, sizes: Mapping[str, tuple[tuple[Any, ...], torch.dtype]]) -> GraphOrder:
    wrapper, tokens = Wrapper.of(source), order(source)
    started = [call for call in wrapper.calls if isinstance(call, Started)]
    collectives = []
    for number, call in enumerate(started):
        kind, start = next(
            (COLLECTIVES.get(token[:2], "collective"), at)
            for at, token in enumerate(tokens)
            if token[0].isupper() and token != "MM" and int(token.lstrip("AGRSC")) == number
        )
        wait = tokens.index(f"w{number}")
        ranks = int(found[1]) if kind == "reduce_scatter" and (found := _GROUP.search(call.line)) else 1
        shape, dtype = sizes[call.place]
        nbytes = ranks * math.prod(shape) * dtype.itemsize if all(isinstance(n, int) for n in shape) else None
        matmuls = tokens[start:wait].count("MM")
        collectives.append(GraphCollective(kind, nbytes, str(dtype).removeprefix("torch."), start, wait, matmuls))
    return GraphOrder(tokens, tuple(collectives), _given_back(wrapper, sizes))


def _given_back(wrapper: Wrapper, sizes: Mapping[str, tuple[tuple[Any, ...], torch.dtype]]) -> int:
    names = {name for each in wrapper.statements if isinstance(each, Returned) for name in each.names if name}
    made = [sizes[name] for name in names if name in sizes and name not in wrapper.arguments]
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in made if all(isinstance(n, int) for n in shape))
