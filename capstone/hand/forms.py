"""The forms of a matrix that fp8 matmuls read, and the scales that bring it into fp8's range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LIMIT = {E4M3: 448.0, E5M2: 57344.0}
"""The largest number of each format (Micikevicius et al. 2022)."""

PITCH = 32
"""Float32 numbers between one scale and the next: cuBLASLt reads a scale at addresses that are multiples of 128 bytes
or not at all (seen with CUDA 13.0)."""


@dataclass(frozen=True)
class WantedForms:
    """Which forms of a matrix some matmuls will read, and the format of the fp8 ones."""

    dtype: torch.dtype
    rows: bool = True
    turned: bool = True
    plain: bool = False

    @property
    def in_fp8(self) -> bool:
        return self.rows or self.turned


@dataclass(frozen=True)
class Fp8Forms:
    """A matrix [rows, columns] (or a stack of them) as matmuls read it; what nobody reads is None.

    rows: fp8, as the matrix lies. turned: fp8, its transpose. Hopper multiplies fp8 along rows of both operands only,
    and a matrix is read along its rows by one matmul and along its columns by the other. plain: not quantised.
    """

    rows: Tensor | None
    turned: Tensor | None
    plain: Tensor | None


@dataclass(frozen=True)
class ScaleSlot:
    """The scale of a matrix, or of each of a stack: views [layers, PITCH], of which column 0 counts.

    scale: what the matrix is multiplied by. inverse: 1 / scale, for the matmul. peak: the largest magnitude seen.
    """

    scale: Tensor
    inverse: Tensor
    peak: Tensor

    def __getitem__(self, layer: int) -> ScaleSlot:
        one = slice(layer, layer + 1)
        return ScaleSlot(self.scale[one], self.inverse[one], self.peak[one])


class DelayedScales:
    """A scale for each name, that the matrix's largest magnitude of the step before fits (delayed scaling).

    This step's maximum is known when the whole matrix has been made, too late to scale what has been stored. A value
    above the last maximum times `headroom` is cut off at the format's limit.
    """

    TINY = 1e-12

    def __init__(self, limits: Sequence[tuple[str, int, float]], headroom: float, device: torch.device) -> None:
        """limits: (name, layers, the format's largest number) of each matrix or stack."""
        self._at: dict[str, slice] = {}
        column: list[float] = []
        for name, layers, limit in limits:
            self._at[name] = slice(len(column), len(column) + layers)
            column += [limit / headroom] * layers
        self.limit = torch.tensor(column, device=device)[:, None].repeat(1, PITCH)
        self.scale, self.inverse = torch.ones_like(self.limit), torch.ones_like(self.limit)
        self.peak = torch.full_like(self.limit, self.TINY)

    def __getitem__(self, name: str) -> ScaleSlot:
        at = self._at[name]
        return ScaleSlot(self.scale[at], self.inverse[at], self.peak[at])

    def renew(self) -> None:
        """Scales from the peaks that were seen since the last time; what was not seen keeps its scale."""
        torch.where(self.peak > self.TINY, self.limit / self.peak, self.scale, out=self.scale)
        torch.reciprocal(self.scale, out=self.inverse)
        self.peak.fill_(self.TINY)
