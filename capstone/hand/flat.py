"""Parameters of one kind, end to end in a few flat buffers: one launch updates them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FlatParameters:
    """Some parameters and all that training keeps of them: each buffer is [n], each parameter a view into it.

    master and the moments (first, second) have the dtype of sums; low is what the matmuls read, a copy of master in
    their dtype, or master itself where that is the same; decay is the weight decay of AdamW for all of them.
    """

    shapes: Mapping[str, torch.Size]
    master: Tensor
    low: Tensor
    gradient: Tensor
    first: Tensor
    second: Tensor
    decay: float

    @classmethod
    def of(
        cls, parameters: Mapping[str, Tensor], sums: torch.dtype, low: torch.dtype, gradient: torch.dtype, decay: float
    ) -> FlatParameters:
        """Copies of these parameters, in their order, in buffers of those dtypes."""
        master = torch.cat([each.detach().flatten().to(sums) for each in parameters.values()])
        return cls(
            shapes={name: each.shape for name, each in parameters.items()},
            master=master,
            low=master if low == sums else master.to(low),
            gradient=torch.zeros_like(master, dtype=gradient),
            first=torch.zeros_like(master),
            second=torch.zeros_like(master),
            decay=decay,
        )

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """{name: the parameter's part of `buffer`, in its shape}."""
        parts = buffer.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    @torch.no_grad()
    def restart(self, weights: Mapping[str, Tensor]) -> None:
        """These values, and no step taken."""
        for name, part in self.views(self.master).items():
            part.copy_(weights[name])
        self.low.copy_(self.master)
        self.first.zero_(), self.second.zero_()

    @property
    def state(self) -> dict[str, Tensor]:
        """What an update changes, each buffer once."""
        own = {} if self.low is self.master else {"low": self.low}
        return {"master": self.master, "first": self.first, "second": self.second, **own}


def vectors_of_norms(block: int) -> list[str]:
    """A block's vectors in the order of the norms' sums: the bias before each norm, its weight, its shift."""
    name = f"blocks.{block}."
    before = [f"blocks.{block - 1}.mlp.down.bias"] if block else []
    return [
        *before, name + "norm1.weight", name + "norm1.bias",
        name + "attention.out.bias", name + "norm2.weight", name + "norm2.bias",
    ]  # fmt: skip
