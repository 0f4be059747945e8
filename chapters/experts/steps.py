"""Expert parallel, compiled: on which step does which rank compile, and what do the collectives of guards change?"""

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from compile_lab._torch.dynamo import dynamo_config, dynamo_utils
from compile_lab.devices import ranks
from compile_lab.recordings import RecordedRow

from ..shared.counting import Counting
from .captured import distance
from .layer import MoE, grads
from .parallel import layer, own

N = 4
SAME: tuple[tuple[int, ...], ...] = ((256,) * 4,) * N
"""For each rank, its number of tokens in each step: all alike."""
UNEVEN = (256, 256, 192, 256), (256, 256, 256, 192), (256, 256, 256, 256), (256, 224, 200, 256)
"""As a loader gives it that packs documents: ranks meet another number on different steps, or never."""
PATIENCE_S, SLOW_S = 6.0, 15.0


@dataclass(frozen=True)
class Compiled(RecordedRow):
    """What one rank saw in its steps."""

    new: Sequence[int]
    """Graphs that it compiled in each step."""
    breaks: int
    forward: int
    """All-to-alls in the forward graphs that ran in the last step, and in the backward's."""
    backward: int
    guarded: Sequence[int]
    """Collectives of guards in each step."""
    wrong_by: float
    """From the same layer in eager mode: output and gradients of the last step, relative to the largest element."""


@dataclass(frozen=True)
class Case:
    """How the layer is compiled, and with how many tokens on each rank in each step.

    ``captured``: Dynamo takes the numbers of rows into the graph. ``guards``: ranks ask one another before they run
    compiled code. ``dynamic`` is an option of torch.compile. ``slow``: from the second step on this rank takes
    `SLOW_S` to compile.
    """

    counts: Sequence[Sequence[int]] = SAME
    captured: bool = True
    guards: bool = False
    dynamic: bool | None = None
    slow: int | None = None


CASES = {
    "a break at `.tolist()`": Case(captured=False),
    "captured whole": Case(),
    "captured, uneven tokens": Case(UNEVEN),
    "the same, guard collectives": Case(UNEVEN, guards=True),
    "the same, `dynamic=True`": Case(UNEVEN, dynamic=True),
    "equal tokens, guard collectives": Case(guards=True),
}


def on_rank(case: Case) -> Compiled:
    """This rank's steps, forward and backward, of the compiled layer."""
    warnings.simplefilter("ignore")
    rank, counting, asked = dist.get_rank(), Counting(), Counter[str]()
    new: list[int] = []
    guarded: list[int] = []
    backend = _delayed(counting, lambda: SLOW_S if new and case.slow == rank else 0.0)
    compiled = torch.compile(layer, backend=backend, dynamic=case.dynamic)
    with dynamo_config.patch(capture_scalar_outputs=case.captured), _counting_gathers(asked):
        previous = torch.compiler.set_enable_guard_collectives(case.guards)
        try:
            for count in case.counts[rank]:
                before = counting.graphs, asked["guards"]
                counting.begin()
                values = _step(compiled, count)
                new.append(counting.graphs - before[0])
                guarded.append(asked["guards"] - before[1])
        finally:
            torch.compiler.set_enable_guard_collectives(previous)
    forward, backward = (
        sum(number for name, number in calls.items() if "all_to_all" in name)
        for calls in (counting.forward_calls, counting.backward_calls)
    )
    breaks = sum(dynamo_utils.counters["graph_break"].values())
    return Compiled(new, breaks, forward, backward, guarded, distance(values, _step(layer, case.counts[rank][-1])))


def _step(call: Callable[..., Tensor], count: int) -> list[Tensor]:
    """Forward and backward of fresh leaves: the output, and the gradients of tokens and experts."""
    x, router, bias, up, down = own(MoE("loop"), count)
    out = call(x, router, bias, up, down, dist.get_world_size(), "grouped")
    out.square().sum().backward()
    return [out.detach(), *grads(x, up, down)]


def _delayed(backend: Counting, seconds: Callable[[], float]) -> Callable[..., Any]:
    def delayed(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        time.sleep(seconds())
        return backend(graph, inputs)

    return delayed


def _counting_gathers(counts: Counter[str]) -> Any:
    """While it is in force, the collectives of guards are counted: they gather an object of each rank."""
    gather = dist.all_gather_object

    def counted(*args: Any, **kwargs: Any) -> None:
        counts["guards"] += 1
        gather(*args, **kwargs)

    return mock.patch.object(dist, "all_gather_object", counted)


def run(case: Case) -> list[Compiled]:
    """What each rank saw, one for each row of the case's counts."""
    return ranks.run(on_rank, len(case.counts), case, echo=False)


def hang() -> list[str]:
    """What each rank says if one compiles for longer than the others are patient; empty for one that came to its end.

    Rank 0 compiles in the third step, for `SLOW_S`; the group's time-out is `PATIENCE_S`.
    """
    found = ranks.endings(on_rank, N, Case(UNEVEN, slow=0), patience=PATIENCE_S, after=2 * SLOW_S)
    return [re.sub(r"\[\S+:\d+\] ", "", each.raised).partition(" [")[0] for each in found]
