"""Two rulers held to the same compiled steps: a tolerance, and units of measured rounding. Which tells faults apart?

A subject is right, or it is wrong: a step whose compiled result differs by rounding only, several of them reported as
faults all the same, or one with a fault, planted or torch's own. Each gets the least tolerance with which
`torch.allclose` would call it right, and the judge's units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile_lab.judge.judging import gradients

from ..shared import subjects
from .planted import PLANTED, planted

Rounded = tuple[str, Callable[..., Any], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Measured:
    """A subject, ``name``, whose compiled results are ``wrong`` or not; the least tolerance t with which ``allclose``
    (rtol = atol = t) holds for all of them, and the worst in units of rounding. ``refused``: what was not compared."""

    name: str
    wrong: bool
    tolerance: float
    units: float
    refused: int = 0

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Measured:
        return cls(**{**row, **{key: float(row[key]) for key in ("tolerance", "units")}})

    def to_json(self) -> dict[str, Any]:
        """As JSON has no infinity, numbers that may be infinite are text."""
        return {**vars(self), "tolerance": str(self.tolerance), "units": str(self.units)}


def errors(rows: Sequence[Measured], ruler: str, limit: float) -> tuple[list[str], list[str]]:
    """With what is above ``limit`` called wrong: the right subjects that are accused, and the faults that are missed.
    ``ruler`` is "tolerance" or "units"."""
    accused = [row.name for row in rows if not row.wrong and getattr(row, ruler) > limit]
    return accused, [row.name for row in rows if row.wrong and getattr(row, ruler) <= limit]


def measured(name: str, model: Callable[..., Any], batch: Any, fault: str = "") -> Measured:
    """One subject, under Inductor on this machine."""
    with planted(fault) if fault else nullcontext():
        judged = gradients(model, batch)
    verdict = judged.verdicts[-1]
    if verdict.raised:
        raise RuntimeError(f"{name}: {verdict.raised}")
    tolerance, units = (max(each.values(), default=0.0) for each in (verdict.tolerances, verdict.units))
    return Measured(name, bool(fault), tolerance, units, len(judged.refused))


def right() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Steps that are compiled rightly, by name, with their batch."""
    model = subjects.deep_gpt(2, 64, 4, 64)
    yield "MiniGPT, two layers", model, subjects.sentences(model, 4, 0)
    yield "an MLP of six blocks", subjects.deep_mlp(layers=6, dim=32), (subjects.rows(128, 32),)
    yield from _reported()
    yield from _delicate()


def _reported() -> Iterator[Rounded]:
    """Differences that were reported at pytorch/pytorch as faults, and are rounding."""
    yield "InstanceNorm of 1024² (#142839)", lambda x: F.instance_norm(x), (_drawn(1, 2, 1024, 1024),)
    yield "a sum that cancels (#168278)", lambda x: x.sum(0), (_cancelling(),)
    yield "1 / |layer norm| (#186577)", lambda x: 1 / (F.layer_norm(x, (128,)).abs() + 1e-6), (_drawn(64, 128),)
    yield "normalised, pooled, normalised (#183601)", _normalised, (_drawn(4, 3, 10, 12),)
    yield "two einsum and an exp (#159154)", _weighted, (_ones(5, 1, 32, 32), _ones(5))


def _delicate() -> Iterator[Rounded]:
    """Where rounding is large for a reason."""
    yield "a variance far from 0", lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, (_drawn(64, 256) + 30,)
    yield "a long cumulative sum", lambda x: x.cumsum(-1), (_drawn(8, 20_000),)
    yield "a softmax of large numbers", lambda x: (100 * x).softmax(-1), (_drawn(64, 256),)
    yield "matmuls in bf16", lambda x, w: ((x @ w).relu() @ w).float(), (_drawn(64, 64, dtype=torch.bfloat16),) * 2
    yield "numbers around 10⁶", lambda x, w: (x @ w).tanh() + x, (_drawn(64, 64, scale=1e6), _drawn(64, 64))


def wrong() -> Iterator[tuple[str, nn.Module, Any, str]]:
    """A step with each planted fault: name, model, batch, the fault."""
    for fault in PLANTED:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16))
        yield f"a gradient {fault}", model, (_drawn(32, 16, leaf=False) / 100,), fault


def _drawn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, leaf: bool = True) -> Tensor:
    drawn = scale * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return drawn.to(dtype).requires_grad_(leaf)


def _ones(*shape: int) -> Tensor:
    return torch.ones(shape).requires_grad_()


def _cancelling() -> Tensor:
    half = 1e3 * torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
    return torch.cat([half, -half.flip(0)]).requires_grad_()


def _normalised(x: Tensor) -> Tensor:
    pooled = F.adaptive_avg_pool2d(F.instance_norm(x), 1)
    return F.normalize(F.hardswish(F.normalize(pooled, dim=0) * x), dim=0)


def _weighted(x: Tensor, scale: Tensor) -> Tensor:
    weights = torch.exp(-torch.einsum("i...,i->i...", x, scale))
    return torch.einsum("i,i...->i...", 1 / torch.einsum("i...->i", weights), weights)
