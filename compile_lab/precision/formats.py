"""What does each format keep of a number, and what does each operation lose? Formats, and errors against float64.

An error here is relative, in the Euclidean norm: ‖y − y₆₄‖ / ‖y₆₄‖, where y₆₄ is computed in float64 from the same
inputs, rounded already to the format. So rounding the inputs is nobody's error, and what rounding the exact result
would cost by itself is told beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..doors import check_whole, door
from ..measure.judge import relative_error
from ..page.units import significant
from .casts import dtypes, short


@dataclass(frozen=True)
class Format:
    """A floating format: 1 sign bit, ``exponent_bits``, ``mantissa_bits`` (stored); ``nbytes`` in memory.

    ``largest`` finite, ``smallest_normal``, ``smallest`` above zero; ``ulp_at_one`` is the distance from 1 to the next
    number. Rounding to nearest changes a normal number by at most ``ulp_at_one / 2`` of it.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    nbytes: int
    largest: float
    smallest_normal: float
    dtype: torch.dtype

    @property
    def bits(self) -> int:
        """Bits that count: of TF32's 32 in memory only 19."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def ulp_at_one(self) -> float:
        return 2.0**-self.mantissa_bits

    @property
    def smallest(self) -> float:
        return self.smallest_normal * self.ulp_at_one


def _format(name: str, exponent_bits: int, dtype: torch.dtype) -> Format:
    told = torch.finfo(dtype)
    # eps is the distance from 1 to the next number: 2 to the minus mantissa bits.
    mantissa_bits = round(-torch.tensor(told.eps, dtype=torch.float64).log2().item())
    return Format(name, exponent_bits, mantissa_bits, told.bits // 8, told.max, told.smallest_normal, dtype)


_TF32_LARGEST = (2 - 2.0**-10) * 2.0**127
FORMATS: dict[str, Format] = {
    "fp32": _format("fp32", 8, torch.float32),
    # A mode of the multiplier, not a dtype: fp32 in memory, of whose mantissa 10 bits are read (NVIDIA, Ampere).
    "tf32": Format("tf32", 8, 10, 4, _TF32_LARGEST, torch.finfo(torch.float32).smallest_normal, torch.float32),
    "bf16": _format("bf16", 8, torch.bfloat16),
    "fp16": _format("fp16", 5, torch.float16),
    "fp8 e4m3": _format("fp8 e4m3", 4, torch.float8_e4m3fn),
    "fp8 e5m2": _format("fp8 e5m2", 5, torch.float8_e5m2),
}


@contextlib.contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """While the block runs, matmuls of fp32 use "highest" (all bits) or "high" (TF32, where there is any)."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _softmax_in_steps(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def _running_sum(x: Tensor) -> Tensor:
    total = x[:, 0]
    for column in x.unbind(-1)[1:]:
        total = total + column
    return total


def _targets(x: Tensor) -> Tensor:
    return torch.arange(len(x), device=x.device) % x.shape[-1]


LARGEST_MATRIX = 16_384
OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": lambda x, w: x @ w,
    "softmax": lambda x, w: F.softmax(x, -1),
    "softmax, step by step": lambda x, w: _softmax_in_steps(x),
    "layer_norm": lambda x, w: F.layer_norm(x, x.shape[-1:]),
    "gelu": lambda x, w: F.gelu(x, approximate="tanh"),
    "exp": lambda x, w: torch.exp(x),
    "sum": lambda x, w: x.sum(-1),
    "sum, step by step": lambda x, w: _running_sum(x),
    "cross_entropy": lambda x, w: F.cross_entropy(x, _targets(x), reduction="none"),
    "add": lambda x, w: x + w,
}
"""Operations of a training step on two square matrices; two of them also as a chain of simpler ones."""


@door
def op_errors(
    device: Literal["cpu", "cuda"], n: int = 256, dtypes: tuple[torch.dtype, ...] | None = None
) -> list[dict[str, Any]]:
    """The error of each operation of ``OPS`` in each dtype, on normal random [n, n] matrices.

    Rows ``{"op", "precision", "error", "rounding"}``, plain JSON values: ``rounding`` is what rounding the exact result
    to the dtype costs by itself. On a GPU, matmul is measured with TF32 as well. No autocast is involved.

    >>> import torch
    >>> from compile_lab.precision import op_errors
    >>> rows = op_errors("cpu", n=64, dtypes=(torch.bfloat16,))
    >>> [row["op"] for row in rows if row["error"] > 3 * row["rounding"]]
    ['sum, step by step']
    """
    check_whole("n", n, 1, LARGEST_MATRIX)
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, n, generator=generator).to(device) for _ in range(2))
    rows = []
    for op, fn in OPS.items():
        for dtype in dtypes or (torch.float32, torch.bfloat16, torch.float16):
            rows.append(_op_error(op, short(dtype), fn, x.to(dtype), w.to(dtype)))
            if op == "matmul" and dtype == torch.float32 and device == "cuda":
                with float32_products("high"):
                    rows.append(_op_error(op, "tf32", fn, x, w))
    return rows


def _op_error(op: str, precision: str, fn: Callable[..., Tensor], x: Tensor, w: Tensor) -> dict[str, Any]:
    found, exact = fn(x, w), fn(x.double(), w.double())
    return {
        "op": op,
        "precision": precision,
        "error": relative_error(found, exact),
        "rounding": relative_error(exact.to(x.dtype), exact),
    }


def loss_errors(device: str, tokens: int = 256, words: int = 1000) -> list[dict[str, Any]]:
    """The loss under bf16 autocast, given bf16 logits: as it is written, and of logits cast to fp32 first.

    Rows ``{"loss", "reads", "writes", "error", "mean_error"}``: the dtypes of the logarithmic softmax, the error of the
    tokens' losses, and that of their mean.
    """
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(tokens, words, generator=generator).to(device, torch.bfloat16)
    exact = F.cross_entropy(logits.double(), _targets(logits), reduction="none")
    forms: dict[str, Callable[[Tensor, str], Tensor]] = {
        "cross_entropy(logits)": lambda x, of: F.cross_entropy(x, _targets(x), reduction=of),
        "cross_entropy(logits.float())": lambda x, of: F.cross_entropy(x.float(), _targets(x), reduction=of),
    }
    rows = []
    for loss, fn in forms.items():
        with torch.autocast(device, torch.bfloat16):
            each, mean = fn(logits, "none"), fn(logits, "mean")
            ops = dtypes(fn, logits, "mean", backward=False).ops
        (softmax,) = (op for op in ops if op.op == "aten._log_softmax")
        errors = {"error": relative_error(each, exact), "mean_error": relative_error(mean, exact.mean())}
        rows.append({"loss": loss, "reads": softmax.inputs[0], "writes": softmax.outputs[0], **errors})
    return rows


@door
def quantised(x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Tensor, Tensor]:
    """``x`` in 8 bits with one scale for the whole tensor: (values, scale) with x ≈ values · scale.

    The scale maps the largest magnitude to the largest number of the format. Above that, a cast to e4m3fn gives NaN in
    torch 2.11 and the largest number in 2.13. Reads the whole tensor once before it can cast.

    >>> import torch
    >>> from compile_lab.precision.formats import quantised
    >>> values, scale = quantised(torch.tensor([1.0, 2.0, 3.1, 7.0]))
    >>> (values.float() * scale).tolist()
    [1.0, 2.0, 3.0, 7.0]
    """
    scale = x.abs().amax().float().clamp(min=1e-12) / torch.finfo(dtype).max
    return (x.float() / scale).to(dtype), scale


@dataclass(frozen=True)
class Quantisation:
    """A tensor cast to 8 bits and back: the ``error``, and the share of its non-zero elements that became ``zeros``."""

    error: float
    zeros: float

    def __str__(self) -> str:
        return f"{significant(100 * self.error, 2)} %; {100 * self.zeros:.1f} % to 0"


@door
def quantisation(x: Tensor, dtype: torch.dtype, scaled: bool) -> Quantisation:
    """What casting ``x`` to an 8-bit format does to it, with one scale for the tensor or without any.

    >>> import torch
    >>> from compile_lab.precision import quantisation
    >>> x = torch.tensor([1e-4, 2e-4, 1e-3, 0.5])
    >>> [round(quantisation(x, torch.float8_e4m3fn, scaled).zeros, 2) for scaled in (False, True)]
    [0.5, 0.0]
    """
    values, scale = quantised(x, dtype) if scaled else (x.to(dtype), torch.ones((), device=x.device))
    back = values.float() * scale
    zeros = ((back == 0) & (x != 0)).sum() / (x != 0).sum()
    return Quantisation(relative_error(back, x), zeros.item())


@door
def stochastically_rounded(x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """fp32 ``x`` in bf16, rounded up or down at random so that the mean is ``x``.

    bf16 is the upper half of fp32's bits: a random number below the half that is cut off is added before cutting, so
    that it carries as often as it should.
    Raises TypeError for another dtype.

    >>> import torch
    >>> from compile_lab.precision.formats import stochastically_rounded
    >>> x = torch.full((10_000,), 1.001)
    >>> [f"{y.float().mean():.3f}" for y in (x.bfloat16(), stochastically_rounded(x, torch.Generator().manual_seed(0)))]
    ['1.000', '1.001']
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x is of {x.dtype}; this rounds float32 to bfloat16: call .float() first")
    bits = x.contiguous().view(torch.int32)
    noise = torch.randint(1 << 16, bits.shape, dtype=torch.int32, device=x.device, generator=generator)
    return ((bits + noise) & -(1 << 16)).view(torch.float32).to(torch.bfloat16)
