"""Training runs of one model that differ only in how they compute: how far apart do their weights come?

Distance is that of a run's weights from those of the float64 run of the same seed, by the way that these have come
from the start. What one ulp in every weight does at the start is the yardstick: no run can be told to be nearer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import door
from compile_lab.measure.timing import one_thread

from ...shared import subjects

Batch = tuple[Tensor, ...]
CompiledModels = dict[str, tuple[nn.Module, Callable[..., Tensor]]]
LAYERS, DIM, HEADS, CONTEXT, BATCH = 1, 64, 4, 64, 4
AT_STEPS = (1, 3, 10, 30)


@dataclass(frozen=True)
class RunWay:
    """How a run computes. ``ulp``: every weight begins one step of its format higher."""

    dtype: torch.dtype = torch.float32
    compiled: bool = False
    ulp: bool = False


REFERENCE, YARDSTICK = "fp64 eager", "fp32 eager, + 1 ulp"
RUN_WAYS = {
    REFERENCE: RunWay(torch.float64),
    "fp32 eager": RunWay(),
    YARDSTICK: RunWay(ulp=True),
    "fp32 compiled": RunWay(compiled=True),
}


@dataclass(frozen=True)
class TrainedRun:
    """One run: the loss at each step, and the distance of its weights from float64's after each of ``steps``."""

    name: str
    seed: int
    losses: tuple[float, ...]
    steps: tuple[int, ...]
    distances: tuple[float, ...]


@door
def trajectories(
    make: Callable[[int], nn.Module],
    batches: Callable[[int], Sequence[Batch]],
    seeds: Sequence[int] = (0,),
    at_steps: Sequence[int] = AT_STEPS,
) -> list[TrainedRun]:
    """Train ``make(seed)`` on ``batches(seed)``, a step a batch, in each of `RUN_WAYS`; float64 is each seed's truth.

    The model's call returns the loss. AdamW, without decay. What is compiled is compiled once and trained again for
    each seed. Raises ValueError where ``at_steps`` are more than the batches.

    >>> import torch
    >>> from chapters.is_it_right.rounding.runs import trajectories
    >>> class Mean(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return (self.weight * x.to(self.weight)).mean()
    >>> found = trajectories(lambda seed: Mean(2, 2), lambda seed: [(torch.ones(2),)] * 3, at_steps=[1, 3])
    >>> [(run.name, len(run.losses)) for run in found][:2], found[0].distances
    ([('fp64 eager', 3), ('fp32 eager', 3)], (0.0, 0.0))
    """
    found: list[TrainedRun] = []
    compiled: CompiledModels = {}
    reset_dynamo()
    for seed in seeds:
        start, data = make(seed), batches(seed)
        if not data or max(at_steps) > len(data):
            raise ValueError(
                f"at_steps={tuple(at_steps)} asks for more steps than the {len(data)} batches of seed {seed}"
            )
        truth: dict[int, Tensor] = {}
        for name, way in RUN_WAYS.items():
            losses, weights = _trained(way, start, data, set(at_steps), compiled)
            truth, first = truth or weights, _flat(start)
            apart = [
                float((weights[step] - truth[step]).norm() / (truth[step] - first).norm()) for step in sorted(truth)
            ]
            found.append(TrainedRun(name, seed, tuple(losses), tuple(sorted(truth)), tuple(apart)))
    reset_dynamo()
    return found


def _trained(
    way: RunWay, start: nn.Module, data: Sequence[Batch], at_steps: set[int], compiled: CompiledModels
) -> tuple[list[float], dict[int, Tensor]]:
    model = copy.deepcopy(start).to(way.dtype)
    run: Callable[..., Tensor] = model
    if way.compiled:
        model, run = compiled.setdefault("model", (model, torch.compile(model)))
        model.load_state_dict(start.state_dict())
    if way.ulp:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.nextafter(parameter, torch.full_like(parameter, torch.inf)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    losses, weights = [], {}
    for step, batch in enumerate(data, 1):
        loss = run(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step in at_steps:
            weights[step] = _flat(model)
    return losses, weights


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()])


def minigpt_runs() -> list[TrainedRun]:
    """MiniGPT of one layer learns the grammar on a CPU, each way, with each seed: its own weights, its own sentences.

    On one thread: sums in one order, and no thread that waits. ≈ 10 CPU s.
    """

    def make(seed: int) -> nn.Module:
        model = subjects.deep_gpt(LAYERS, DIM, HEADS, CONTEXT)
        drawn = torch.Generator().manual_seed(seed)
        with torch.no_grad():  # torch's own beginning, but another of each seed: signs of the weights are drawn anew
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(torch.randint(0, 2, parameter.shape, generator=drawn) * 2 - 1)
        return model

    def batches(seed: int) -> list[Batch]:
        model = subjects.deep_gpt(LAYERS, DIM, HEADS, CONTEXT)
        return [subjects.sentences(model, BATCH, 1000 * seed + step) for step in range(AT_STEPS[-1])]

    with one_thread():
        return trajectories(make, batches, seeds=(0, 1))
