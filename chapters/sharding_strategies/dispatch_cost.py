"""What DTensor's deciding costs in eager mode: the same call on a plain tensor and on a DTensor of one rank's size.

The tensors are so small that nearly all of the time is Python and C++ around the kernel. No placement changes hands, so
nothing is sent: what is left is unwrapping,
looking the decision up, and wrapping. The clock is the thread's own CPU time, without what other programs take.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

from compile_lab._torch.distributed import forget_strategies
from compile_lab.devices.collectives import pretended
from compile_lab.doors import check_whole, door
from compile_lab.measure.timing import MOST_REPEATS, SAMPLE_S, spread_us

SIDE = 8
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x + x": lambda x, w: x + x,
    "x @ w": lambda x, w: x @ w,
    "softmax": lambda x, w: x.softmax(1),
    "layer_norm": lambda x, w: torch.nn.functional.layer_norm(x, (SIDE,)),
}


@door
@dataclass(frozen=True)
class DispatchCost:
    """One call: CPU microseconds on plain tensors and on DTensors, each as low quartile, median, high quartile.

    ``first_us`` is the call on which DTensor has to decide: rules, candidates, prices.

    >>> from chapters.sharding_strategies.dispatch_cost import DispatchCost
    >>> DispatchCost("x + x", plain_us=(1.0, 1.5, 2.0), dtensor_us=(20.0, 21.5, 24.0), first_us=900.0).added_us
    20.0
    """

    name: str
    plain_us: tuple[float, float, float]
    dtensor_us: tuple[float, float, float]
    first_us: float

    @property
    def added_us(self) -> float:
        """The difference of the medians."""
        return self.dtensor_us[1] - self.plain_us[1]


@door
def dispatch_cost(devices: int = 2, samples: int = 15) -> tuple[DispatchCost, ...]:
    """The `CALLS`, each on an 8 × 8 tensor and on a DTensor whose local part is one. Times are of this machine.

    >>> from chapters.sharding_strategies.dispatch_cost import dispatch_cost
    >>> [each.name for each in dispatch_cost(samples=4)]
    ['x + x', 'x @ w', 'softmax', 'layer_norm']
    """
    check_whole("devices", devices, 2, 64)
    check_whole("samples", samples, 4, 200)
    with pretended(devices), torch.no_grad():
        mesh = init_device_mesh("cpu", (devices,))
        plain = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
        placed = tuple(_as_dtensor(x, mesh, kind) for x, kind in zip(plain, (Shard(0), Replicate()), strict=True))
        return tuple(_cost(name, call, plain, placed, samples) for name, call in CALLS.items())


def _cost(name: str, call: Callable[[Any, Any], Any], plain: Any, placed: Any, samples: int) -> DispatchCost:
    forget_strategies()
    start = time.thread_time()
    call(*placed)
    first = (time.thread_time() - start) * 1e6
    one, other = (_quartiles(lambda given=given: call(*given), samples) for given in (plain, placed))
    return DispatchCost(name, one, other, first)


def _quartiles(call: Callable[[], Any], samples: int) -> tuple[float, float, float]:
    call()
    repeats = max(1, min(MOST_REPEATS, int(SAMPLE_S * 1e6 / max(_in_a_row(call, 3), 1))))
    spread = spread_us([_in_a_row(call, repeats) for _ in range(samples)])
    return spread["low_us"], spread["median_us"], spread["high_us"]


def _in_a_row(call: Callable[[], Any], repeats: int) -> float:
    """CPU microseconds of this thread, a call."""
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats * 1e6


def _as_dtensor(local: Tensor, mesh: Any, kind: Any) -> DTensor:
    return DTensor.from_local(local, mesh, [kind], run_check=False)
