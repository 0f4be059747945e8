"""What the stages of a measured pipeline do: nap, so that the ranks need no core each, or compute.

A kind of work is anything with ``stage(index, stages)``, which makes the module of one stage, and ``batch``, which
makes the input of so many micro-batches; every stage returns a tensor of the shape that it takes.
"""

import functools
import time
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..doors import door
from ..simulator.pipeline import Times, of_each_stage


class StageWork(Protocol):
    """One kind of work; it travels to the ranks, so it is made of plain values."""

    def stage(self, index: int, stages: int) -> nn.Module:
        """The module of one stage, on torch's default device."""

    def batch(self, microbatches: int) -> Tensor:
        """The input of all micro-batches, which are equal shares of its first dimension."""


@door
@dataclass(frozen=True)
class SleepingStage:
    """A stage that sleeps: its work takes time and no core, as a GPU's does. Milliseconds of one stage, or of each.

    So any number of ranks runs as if each had a device to itself, on any number of cores. The tensors that pass between
    the stages are real, float32 [rows, width] for a micro-batch. Nothing is learned.

    >>> from compile_lab.devices import SleepingStage
    >>> nap = SleepingStage(forward_ms=0.1, rows=4, width=16)
    >>> stage, batch = nap.stage(0, stages=2), nap.batch(microbatches=3)
    >>> batch.shape, stage(batch).shape
    (torch.Size([12, 16]), torch.Size([12, 16]))
    """

    forward_ms: Times = 20.0
    input_grad_ms: Times = 20.0
    weight_grad_ms: Times = 20.0
    rows: int = 4
    width: int = 16

    def stage(self, index: int, stages: int) -> nn.Module:
        """ValueError for times below 0, or not one a stage."""
        given = {"forward": self.forward_ms, "input_grad": self.input_grad_ms, "weight_grad": self.weight_grad_ms}
        return _Napping(self.width, *(of_each_stage(name, ms, stages)[index] for name, ms in given.items()))

    def batch(self, microbatches: int) -> Tensor:
        """float32 [microbatches · rows, width]."""
        return torch.ones(microbatches * self.rows, self.width)


@dataclass(frozen=True)
class Encoder:
    """A stage that computes: ``layers`` of torch's own transformer layer, float [batch, length, dim] a micro-batch."""

    layers: int = 1
    dim: int = 64
    heads: int = 4
    batch_size: int = 4
    length: int = 64
    dtype: torch.dtype = torch.float32

    def stage(self, index: int, stages: int) -> nn.Module:
        """With seeded random weights, others for each stage."""
        torch.manual_seed(index)
        layer = functools.partial(
            nn.TransformerEncoderLayer,
            d_model=self.dim,
            nhead=self.heads,
            dim_feedforward=4 * self.dim,
            dropout=0.0,
            activation="gelu",
            norm_first=True,
            batch_first=True,
            dtype=self.dtype,
        )
        return nn.Sequential(*(layer() for _ in range(self.layers)))

    def batch(self, microbatches: int) -> Tensor:
        """Seeded random numbers, the same in each micro-batch: many of them take long to draw."""
        one = torch.randn(self.batch_size, self.length, self.dim, generator=torch.Generator().manual_seed(0))
        return one.to(self.dtype).repeat(microbatches, 1, 1)


class _Sleep(torch.autograd.Function):
    """The identity; its forward and its backward take so many milliseconds."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward_ms: float, backward_ms: float) -> Tensor:
        ctx.backward_ms = backward_ms
        time.sleep(forward_ms / 1e3)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        time.sleep(ctx.backward_ms / 1e3)
        return gradient.clone(), None, None


class _Napping(nn.Module):
    def __init__(self, width: int, forward_ms: float, input_grad_ms: float, weight_grad_ms: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.forward_ms, self.input_grad_ms, self.weight_grad_ms = forward_ms, input_grad_ms, weight_grad_ms

    def forward(self, x: Tensor) -> Tensor:
        if not x.requires_grad:
            x = x + self.bias  # the first stage: else its input would need no gradient, and its backward no nap
        x = _Sleep.apply(x, self.forward_ms, self.input_grad_ms)
        return x @ _Sleep.apply(self.weight, 0.0, self.weight_grad_ms)  # on the weight's path only
