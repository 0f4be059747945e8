"""Steps on real ranks: timed together, profiled, and sent over a wire that can be made slow. Called inside `ranks.run`.

On a CPU, gloo's threads share the cores with the computation: a step can hide its communication and be no faster. A
*throttled* wire takes bytes over bandwidth for each collective and uses no CPU meanwhile, as a network card would.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..doors import door
from ..measure import timing, trace
from ..simulator.overlap import Overlap
from . import ranks
from .overlap import analyse, with_wire
from .throttle import ThrottledGroup

WARM_UP_STEPS, STEPS, PROFILED = 3, 9, 3


@dataclass(frozen=True)
class StepRun:
    """One rank's steps: the median time of one and its quartiles; the overlap in one, without a collective if nothing
    is sent."""

    step_ms: float
    low_ms: float
    high_ms: float
    overlap: Overlap = field(repr=False)
    host_ms: float | None = None
    """The median of the time after which the host had issued the step. On a CPU that is the step."""


def slowest(ranks: Sequence[StepRun]) -> StepRun:
    """Of one step on several ranks, the rank's that took longest: all wait for it."""
    return max(ranks, key=lambda run: run.step_ms)


def measured(
    steps: Mapping[str, Callable[[], Any]],
    group: dist.ProcessGroup | None = None,
    device: str = "cpu",
    rounds: int = STEPS,
) -> dict[str, StepRun]:
    """Time these steps on this rank beside the others, then profile each; every rank calls it.

    The steps take turns in a random order, so that what disturbs the machine disturbs all of them. The overlap is that
    of the profiled step, one of three, whose exposed time over all ranks is the median: the same step on each. `group`:
    the throttled one that they send over, if they do.
    """
    taken_us = step_times_us(steps, device, rounds)
    runs = {}
    for name, step in steps.items():
        whole, issued = (timing.summary_us(times) for times in zip(*taken_us[name], strict=True))
        low, median, high = (whole[key] / 1e3 for key in ("low_us", "median_us", "high_us"))
        seen = [profiled(step, group, device) for _ in range(PROFILED)]
        runs[name] = StepRun(median, low, high, _typical(seen, device), issued["median_us"] / 1e3)
    return runs


def _typical(seen: list[Overlap], device: str) -> Overlap:
    """The one whose exposed time, summed over the ranks, is the median."""
    exposed = torch.tensor([each.exposed_ms for each in seen], device=device)
    dist.all_reduce(exposed)
    return seen[exposed.argsort().tolist()[len(seen) // 2]]


def step_times_us(
    steps: Mapping[str, Callable[[], Any]], device: str = "cpu", rounds: int = STEPS, warm_up: int = WARM_UP_STEPS
) -> dict[str, list[tuple[float, float]]]:
    """Microseconds of each step, and until the host had issued it: one pair a round, after some to warm up.

    Each round has its own order, seeded, so that no step always follows the same other one. The ranks begin each step
    together, and make the same number of rounds: one that chose by its own clock would leave the others waiting.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for each in range(warm_up + rounds):
        for name in random.Random(each).sample(list(steps), len(steps)):
            timing.wait(device)
            dist.barrier()
            timing.wait(device)
            start = time.perf_counter()
            steps[name]()
            issued = time.perf_counter() - start
            timing.wait(device)
            if each >= warm_up:
                taken[name].append(((time.perf_counter() - start) * 1e6, issued * 1e6))
    return taken


def profiled(step: Callable[[], Any], group: dist.ProcessGroup | None = None, device: str = "cpu") -> Overlap:
    """The overlap in one step of this rank, from the profiler's trace."""

    def settled() -> None:
        step()
        timing.wait(device)
        ranks.settle()

    timing.wait(device)
    dist.barrier()
    timing.wait(device)
    ranks.settle()  # the barrier is not part of the step
    before = len(group.sent) if isinstance(group, ThrottledGroup) else 0
    seen = trace.profiled(settled, device, record_shapes=True)
    return analyse(with_wire(seen, group.sent[before:]) if isinstance(group, ThrottledGroup) else seen, alone=True)


@door
def training_step(
    model: Callable[..., Tensor], optimizer: torch.optim.Optimizer, *inputs: Tensor, send: bool = True
) -> Callable[[], Tensor]:
    """One step of a model that returns its loss, with its phases marked for the profiler. It gives the loss.

    ``send=False``: what DDP would take without sending anything.

    >>> import torch
    >>> from compile_lab.devices.steps import training_step
    >>> weight = torch.nn.Parameter(torch.ones(3))
    >>> step = training_step(lambda x: (weight * x).sum(), torch.optim.SGD([weight], lr=0.1), torch.ones(3))
    >>> [round(step().item(), 2) for _ in range(3)]
    [3.0, 2.7, 2.4]
    """
    from torch.profiler import record_function

    def step() -> Tensor:
        alone = nullcontext() if send else model.no_sync()  # type: ignore[attr-defined]  # which DDP has
        with record_function("forward"), alone:
            loss = model(*inputs)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step
