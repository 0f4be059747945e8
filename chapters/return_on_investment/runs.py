"""Training runs of one model that differ only in how they compute: how far apart do their weights come?

Distance is that of a run's weights from those of the float64 run of the same seed, by the way that these have come
from the start. What one ulp in every weight does at the start is the yardstick: no run can be told to be nearer.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import door

from .operators_judged import _five, float32_multiplied_in

Batch = tuple[Tensor, ...]


@door
@dataclass(frozen=True)
class RunWay:
    """How a run computes. ``ulp``: every weight begins one step of its format higher. ``products``: fp32's way.

    >>> from chapters.return_on_investment.runs import RUN_WAYS
    >>> RUN_WAYS["bf16 autocast compiled"]
    RunWay(dtype=torch.float32, autocast=True, compiled=True, ulp=False, products='fp32', options={})
    """

    dtype: torch.dtype = torch.float32
    autocast: bool = False
    compiled: bool = False
    ulp: bool = False
    products: str = "fp32"
    options: Mapping[str, Any] = field(default_factory=dict)


REFERENCE, YARDSTICK = "fp64 eager", "fp32 eager, + 1 ulp"
RUN_WAYS: dict[str, RunWay] = {
    REFERENCE: RunWay(torch.float64),
    "fp32 eager": RunWay(),
    YARDSTICK: RunWay(ulp=True),
    "fp32 compiled": RunWay(compiled=True),
    "bf16 autocast eager": RunWay(autocast=True),
    "bf16 autocast compiled": RunWay(autocast=True, compiled=True),
    "fp64 compiled": RunWay(torch.float64, compiled=True),
    "tf32 eager": RunWay(products="tf32"),
    "tf32 compiled": RunWay(compiled=True, products="tf32"),
}
CPU_RUN_WAYS = tuple(name for name in RUN_WAYS if "tf32" not in name)
GPU_RUN_WAYS = tuple(name for name in RUN_WAYS if name != "fp64 compiled")


@door
@dataclass(frozen=True)
class TrainedRun:
    """One run: the loss at each step, and the distance of its weights after each of ``steps``. None for float64.

    >>> from chapters.return_on_investment.runs import TrainedRun
    >>> TrainedRun("fp32 eager", 0, losses=(6.41234567, 5.0), steps=(1, 3), distances=(1.23456789e-6, 2e-6)).to_json()
    {'name': 'fp32 eager', 'seed': 0, 'losses': [6.41235, 5.0], 'steps': [1, 3], 'distances': [1.2346e-06,
    2e-06], 'stopped': ''}
    """

    name: str
    seed: int
    losses: tuple[float, ...]
    steps: tuple[int, ...]
    distances: tuple[float, ...]
    stopped: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TrainedRun:
        """Back from a recording."""
        values = {each.name: stored[each.name] for each in fields(cls)}
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, to six digits the losses, to five the distances."""
        rounded = {"losses": [float(f"{loss:.6g}") for loss in self.losses]}
        return {**asdict(self), **rounded, "steps": list(self.steps), "distances": [_five(d) for d in self.distances]}


AT_STEPS = (1, 3, 10, 30, 100, 200, 300)


@door
def trajectories(
    make: Callable[[int], nn.Module],
    batches: Callable[[int], Sequence[Batch]],
    ways: Sequence[str] = CPU_RUN_WAYS,
    seeds: Sequence[int] = (0,),
    at_steps: Sequence[int] = AT_STEPS,
    lr: float = 1e-3,
    budget_s: float = float("inf"),
) -> list[TrainedRun]:
    """Train ``make(seed)`` on ``batches(seed)``, a step a batch, each way; float64 eager first, as every seed's truth.

    The model's call returns the loss. AdamW, without decay. What is compiled is compiled once and trained again for
    each seed. A seed that would begin after ``budget_s`` seconds is left out; a way that would after half as many again
    is told so. Raises ValueError for an unknown way, and where ``at_steps`` are more than the batches.

    >>> import torch
    >>> from chapters.return_on_investment.runs import trajectories
    >>> class Mean(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return (self.weight * x).mean()
    >>> for run in trajectories(
    ...     lambda seed: Mean(2, 2), lambda seed: [(torch.ones(2),)] * 3, ways=["fp32 eager"], at_steps=[1, 3]
    ... ):
    ...     print(run.name, len(run.losses), run.steps)
    fp64 eager 3 (1, 3)
    fp32 eager 3 (1, 3)
    """
    if unknown := [name for name in ways if name not in RUN_WAYS]:
        raise ValueError(f"no run is called {', '.join(map(repr, unknown))}: there are {', '.join(RUN_WAYS)}")
    found: list[TrainedRun] = []
    compiled: dict[str, tuple[nn.Module, Any]] = {}
    began = time.monotonic()
    reset_dynamo()
    for seed in seeds:
        if found and time.monotonic() - began > budget_s:
            break
        start, data = make(seed), batches(seed)
        if not data or max(at_steps) > len(data):
            raise ValueError(
                f"at_steps={tuple(at_steps)} asks for more steps than the {len(data)} batches of seed {seed}"
            )
        truth = None
        for name in (REFERENCE, *(each for each in ways if each != REFERENCE)):
            if truth is not None and time.monotonic() - began > 1.5 * budget_s:
                found.append(TrainedRun(name, seed, (), (), (), f"not begun: {1.5 * budget_s:g} s were spent"))
                continue
            try:
                losses, weights = _trained(name, start, data, set(at_steps), lr, compiled)
            except Exception as reason:  # one way that a torch or a device refuses leaves the others as they are
                if truth is None:
                    raise
                said = f"{type(reason).__name__}: {str(reason).partition(chr(10))[0]}"[:300]
                found.append(TrainedRun(name, seed, (), (), (), said))
                continue
            truth = truth or weights
            first = _flat(start)
            apart = [
                float((weights[step] - truth[step]).norm() / (truth[step] - first).norm()) for step in sorted(truth)
            ]
            found.append(TrainedRun(name, seed, tuple(losses), tuple(sorted(truth)), tuple(apart)))
    reset_dynamo()
    return found


def _trained(
    name: str,
    start: nn.Module,
    data: Sequence[Batch],
    at_steps: set[int],
    lr: float,
    compiled: dict[str, tuple[nn.Module, Any]],
) -> tuple[list[float], dict[int, Tensor]]:
    way = RUN_WAYS[name]
    model = copy.deepcopy(start).to(way.dtype)
    run: Callable[..., Tensor] = model
    if way.compiled:
        if name not in compiled:
            compiled[name] = model, torch.compile(model, options=dict(way.options) or None)
        kept, run = compiled[name]
        kept.load_state_dict(model.state_dict())
        model = kept
    if way.ulp:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.nextafter(parameter, torch.full_like(parameter, torch.inf)))
    parameters = list(model.parameters())
    device = parameters[0].device.type
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0, fused=device == "cuda")
    cast = torch.autocast(device, torch.bfloat16) if way.autocast else contextlib.nullcontext()
    losses, weights = [], {}
    with float32_multiplied_in(way.products):
        for step, batch in enumerate(data, 1):
            with cast:
                loss = run(*batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            if step in at_steps:
                weights[step] = _flat(model)
    return torch.stack(losses).double().tolist(), weights


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()])
