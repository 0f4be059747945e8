"""A CPU issues kernels and a GPU works them off: who waits for whom, and how long does a call take?

The CPU issues one launch after the other, each at a cost: Python, the dispatcher, the driver. The GPU takes the kernels
from a queue, in order and one at a time. Nothing else is modelled: no gaps between kernels, no copies, no waiting for a
result. `work` says what a call asks of both in eager mode, compiled, or as a CUDA graph; `issued` when each part of it
happens. All times are in microseconds.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..doors import check_amount, check_whole, door, shown

WAYS = ("eager", "compiled", "CUDA graph")


@dataclass(frozen=True)
class Demand:
    """What one call asks for: the CPU's time for each of its launches, and the times of the kernels in each."""

    way: str
    issues_us: tuple[float, ...]
    kernels_us: tuple[tuple[float, ...], ...]

    @property
    def kernels(self) -> int:
        """How many kernels a call runs."""
        return sum(map(len, self.kernels_us))

    @property
    def host_us(self) -> float:
        """The CPU's time for a call."""
        return math.fsum(self.issues_us)

    @property
    def gpu_us(self) -> float:
        """The GPU's time for a call."""
        return math.fsum(time_us for launch in self.kernels_us for time_us in launch)

    @property
    def call_us(self) -> float:
        """What a call takes when many follow one another: the longer of the two, for the other one waits."""
        return max(self.host_us, self.gpu_us)

    @property
    def limited_by(self) -> str:
        """ "CPU" or "GPU": whose time a call takes."""
        return "CPU" if self.host_us > self.gpu_us else "GPU"

    @property
    def idle(self) -> float:
        """The share of a call in which the GPU has nothing to do, when many calls follow one another."""
        return 1 - self.gpu_us / self.call_us if self.call_us else 0.0


class KernelRun(NamedTuple):
    """One kernel: in which call, when its launch was begun and done, when the GPU started and ended it."""

    call: int
    begun_us: float
    issued_us: float
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Issued:
    """Some calls one after the other, from an idle GPU on: each kernel in its order."""

    work: Demand
    runs: tuple[KernelRun, ...]

    @property
    def end_us(self) -> float:
        """When the last kernel is done."""
        return self.runs[-1].end_us

    def gaps(self) -> Iterator[tuple[float, float]]:
        """From when until when the GPU had nothing to do, before its last kernel."""
        free_us = 0.0
        for run in self.runs:
            if run.start_us > free_us:
                yield free_us, run.start_us
            free_us = run.end_us

    def waiting(self) -> list[tuple[float, int]]:
        """The queue's depth: at which time it becomes how many kernels, issued and not begun."""
        changes: dict[float, int] = {}
        for run in self.runs:
            changes[run.issued_us] = changes.get(run.issued_us, 0) + 1
            changes[run.start_us] = changes.get(run.start_us, 0) - 1
        depth, steps = 0, [(0.0, 0)]
        for at_us in sorted(changes):
            depth += changes[at_us]
            steps.append((at_us, depth))
        return steps


@door
def work(
    way: str,
    kernels: int,
    kernel_us: float,
    issue_us: float,
    *,
    fused: float = 1,
    work_left: float = 1,
    graph_launch_us: float = 0,
) -> Demand:
    """What a call of so many eager ``kernels``, each of ``kernel_us``, asks for in one of `WAYS`.

    Eager, each kernel costs the CPU ``issue_us``. Compiled, so many of them as ``fused`` says become one, and of the
    GPU's time the share ``work_left`` remains. A CUDA graph has the compiled kernels and one launch, which costs
    ``graph_launch_us``. Raises ValueError for an unknown way, less than one kernel, a negative time or share, or
    ``fused`` below 1.

    >>> from compile_lab.simulator.issuing import WAYS, work
    >>> calls = [work(way, 100, kernel_us=2, issue_us=5, fused=4, graph_launch_us=10) for way in WAYS]
    >>> [(call.way, call.call_us, call.limited_by) for call in calls]
    [('eager', 500.0, 'CPU'), ('compiled', 200.0, 'GPU'), ('CUDA graph', 200.0, 'GPU')]
    """
    if way not in WAYS:
        raise ValueError(f"way is {shown(way)}; it must be one of {', '.join(map(repr, WAYS))}")
    check_whole("kernels", kernels)
    check_amount("kernel_us", kernel_us)
    check_amount("issue_us", issue_us)
    check_amount("work_left", work_left)
    check_amount("graph_launch_us", graph_launch_us)
    check_amount("fused", fused)
    if fused < 1:
        raise ValueError(f"fused is {shown(fused)}; it must be at least 1: that many kernels become one")
    if way == "eager":
        return Demand(way, (issue_us,) * kernels, ((kernel_us,),) * kernels)
    count = max(1, round(kernels / fused))
    each_us = kernels * kernel_us * work_left / count
    if way == "compiled":
        return Demand(way, (issue_us,) * count, ((each_us,),) * count)
    return Demand(way, (graph_launch_us,), ((each_us,) * count,))


@door
def issued(demand: Demand, calls: int = 1) -> Issued:
    """When each kernel of so many calls in a row is issued, started and done. ValueError for no call.

    >>> from compile_lab.simulator.issuing import issued, work
    >>> call = issued(work("eager", 3, kernel_us=2, issue_us=5))
    >>> call.end_us, list(call.gaps())
    (17.0, [(0.0, 5.0), (7.0, 10.0), (12.0, 15.0)])
    """
    check_whole("calls", calls)
    runs, host_us, gpu_us = [], 0.0, 0.0
    for call in range(calls):
        for issue_us, launch in zip(demand.issues_us, demand.kernels_us, strict=True):
            begun_us, host_us = host_us, host_us + issue_us
            for kernel_us in launch:
                start_us = max(host_us, gpu_us)
                gpu_us = start_us + kernel_us
                runs.append(KernelRun(call, begun_us, host_us, start_us, gpu_us))
    return Issued(demand, tuple(runs))
