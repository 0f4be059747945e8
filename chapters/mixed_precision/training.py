"""What does a precision do to training? The same model, data and seed in several, each against float64.

A recipe says in which dtype parameters are kept, to what autocast casts, whether gradients of the loss are scaled, and
how an update gets into the parameters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab.doors import door
from compile_lab.measure.judge import relative_error_together
from compile_lab.precision.formats import stochastically_rounded

Batch = tuple[Tensor, ...]
UPDATES = ("own", "masters", "stochastic")


@door
@dataclass(frozen=True)
class Recipe:
    """How a model is trained: see the module. ``updates``: "own", the optimizer changes the parameters themselves;
    "masters", it changes fp32 copies that are then rounded into them; "stochastic", the same, but the copies are made
    anew from the parameters at each step, and rounding is at random.

    >>> from chapters.mixed_precision.training import RECIPES, Recipe
    >>> RECIPES["bf16, fp32 masters"]
    Recipe(parameters=torch.bfloat16, autocast=None, scaled=False, updates='masters')
    >>> Recipe(updates="mine")
    Traceback (most recent call last):
        ...
    ValueError: updates='mine' is not known; it is one of 'own', 'masters', 'stochastic'
    """

    parameters: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    scaled: bool = False
    updates: str = "own"

    def __post_init__(self) -> None:
        if self.updates not in UPDATES:
            raise ValueError(f"updates={self.updates!r} is not known; it is one of {', '.join(map(repr, UPDATES))}")


RECIPES: dict[str, Recipe] = {
    "fp64": Recipe(parameters=torch.float64),
    "fp32": Recipe(),
    "bf16 autocast": Recipe(autocast=torch.bfloat16),
    "fp16 autocast, scaled": Recipe(autocast=torch.float16, scaled=True),
    "fp16 autocast": Recipe(autocast=torch.float16),
    "bf16 parameters": Recipe(parameters=torch.bfloat16),
    "bf16, stochastic rounding": Recipe(parameters=torch.bfloat16, updates="stochastic"),
    "bf16, fp32 masters": Recipe(parameters=torch.bfloat16, updates="masters"),
}


@door
@dataclass(frozen=True)
class Training:
    """One training: the loss at each step, and what became of the parameters.

    ``stuck`` is the share of the updates that left a parameter as it was although its gradient was not zero.
    ``scales`` are the loss scales at each step, ``skipped`` the steps that the scaler left out; empty without one.

    >>> from chapters.mixed_precision.training import Training
    >>> Training((2.0, 1.5), stuck=0.25).finite, Training((2.0, float("nan")), stuck=0.0).finite
    (True, False)
    """

    losses: tuple[float, ...]
    stuck: float
    scales: tuple[float, ...] = ()
    skipped: tuple[int, ...] = ()
    parameters: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def finite(self) -> bool:
        return all(map(math.isfinite, self.losses))


def trained(
    model: nn.Module,
    batches: Iterable[Batch],
    recipe: Recipe,
    lr: float | Callable[[int], float] = 3e-3,
    scaler: dict[str, Any] | None = None,
) -> Training:
    """Train a copy of ``model``, whose call returns the loss, for a step on each batch with AdamW (no weight decay).

    ``scaler`` holds options of ``torch.amp.GradScaler``. The model is left as it is. Seeded: stochastic rounding draws
    from a generator of its own. Raises ValueError without a batch.
    """
    model = copy.deepcopy(model).to(recipe.parameters)
    device = next(model.parameters()).device.type
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    holder = _Holder(parameters, recipe.updates)
    optimizer = torch.optim.AdamW(holder.optimised, lr=1e-3, weight_decay=0.0)
    scaler_ = torch.amp.GradScaler(device, enabled=recipe.scaled, **(scaler or {}))
    losses, scales, skipped, stuck, updates = [], [], [], 0, 0
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = lr(step) if callable(lr) else lr
        loss = _loss(model, batch, recipe, device)
        scaler_.scale(loss).backward()
        losses.append(loss.item())
        scales.append(scaler_.get_scale())
        before = [parameter.detach().clone() for parameter in parameters]
        holder.step(optimizer, scaler_)
        if recipe.scaled and scaler_.get_scale() < scales[-1]:
            skipped.append(step)
        stuck_now, updates_now = _stuck(parameters, before)
        stuck, updates = stuck + stuck_now, updates + updates_now
        model.zero_grad(set_to_none=True)
    if not losses:
        raise ValueError("there are no batches, so nothing was trained: give at least one")
    final = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    scaled = (tuple(scales), tuple(skipped)) if recipe.scaled else ((), ())
    return Training(tuple(losses), stuck / max(updates, 1), *scaled, parameters=final)


def _loss(model: nn.Module, batch: Batch, recipe: Recipe, device: str) -> Tensor:
    with torch.autocast(device, recipe.autocast or torch.bfloat16, enabled=recipe.autocast is not None):
        return model(*batch)


class _Holder:
    """What the optimizer changes, and the way from there into the parameters."""

    def __init__(self, parameters: list[nn.Parameter], updates: str) -> None:
        self.parameters, self.updates = parameters, updates
        self.optimised: list[Any] = list(parameters)
        if updates != "own":
            self.optimised = [nn.Parameter(parameter.detach().float()) for parameter in parameters]
        device = parameters[0].device
        self.generator = torch.Generator(device).manual_seed(0)

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer, scaler: Any) -> None:
        if self.updates != "own":
            for copied, parameter in zip(self.optimised, self.parameters, strict=True):
                copied.grad = None if parameter.grad is None else parameter.grad.float()
                if self.updates == "stochastic":  # nothing but the bf16 numbers is kept from step to step
                    copied.copy_(parameter)
        scaler.step(optimizer)
        scaler.update()
        if self.updates != "own":
            for copied, parameter in zip(self.optimised, self.parameters, strict=True):
                at_random = self.updates == "stochastic"
                parameter.copy_(stochastically_rounded(copied, self.generator) if at_random else copied)


def _stuck(parameters: Sequence[nn.Parameter], before: Sequence[Tensor]) -> tuple[int, int]:
    stuck = updates = 0
    for parameter, old in zip(parameters, before, strict=True):
        if parameter.grad is not None:
            moved_by = parameter.grad != 0
            updates += int(moved_by.sum())
            stuck += int((moved_by & (parameter.detach() == old)).sum())
    return stuck, updates


def distance(run: Training, reference: Training, start: nn.Module) -> float:
    """How far the parameters ended from those of ``reference``, by how far those had come from ``start``."""
    first = {name: parameter.detach().double() for name, parameter in start.named_parameters()}
    apart = sum(float((run.parameters[name] - end).square().sum()) for name, end in reference.parameters.items())
    moved = sum(float((end - first[name]).square().sum()) for name, end in reference.parameters.items())
    return math.sqrt(apart / moved)


@torch.no_grad()
def loss_in_float64(model: nn.Module, run: Training, batches: Iterable[Batch]) -> float:
    """The mean loss of a run's final parameters, computed in float64: what was learned, apart from how it is told."""
    judge = copy.deepcopy(model).double()
    for name, parameter in judge.named_parameters():
        parameter.copy_(run.parameters[name])
    losses = [judge(*batch).item() for batch in batches]
    return sum(losses) / len(losses)


@dataclass(frozen=True)
class Gradients:
    """One backward: ``zeros``, by module, is the share of the gradient of its output that is exactly zero.

    ``largest`` is the largest magnitude in those, scale included; ``parameters`` the gradients, scale taken out.
    """

    zeros: dict[str, float]
    largest: float
    parameters: dict[str, Tensor] = field(repr=False, compare=False)

    def error(self, exact: Gradients) -> float:
        """‖g − exact‖ / ‖exact‖ over the gradients of all parameters together."""
        return relative_error_together(self.parameters, exact.parameters)


def gradients(model: nn.Module, batch: Batch, recipe: Recipe, scale: float = 1.0) -> Gradients:
    """The gradients of one batch under a recipe, the loss multiplied by ``scale`` before the backward.

    Looks at the output of every ``nn.Linear``: there the gradient has the precision of the matmul that follows.
    """
    model = copy.deepcopy(model).to(recipe.parameters)
    zeros: dict[str, float] = {}
    largest: list[float] = []

    def look(name: str) -> Callable[[Tensor], None]:
        def seen(gradient: Tensor) -> None:
            zeros[name] = (gradient == 0).double().mean().item()
            largest.append(gradient.abs().max().item())

        return seen

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _, __, out, name=name: out.register_hook(look(name)) and None)
    loss = _loss(model, batch, recipe, next(model.parameters()).device.type)
    (loss * scale).backward()
    named = {name: each.grad.detach() / scale for name, each in model.named_parameters() if each.grad is not None}
    return Gradients(dict(sorted(zeros.items())), max(largest, default=0.0), named)
