"""GELU in its tanh form (Hendrycks and Gimpel 2016), with one exponential.

gelu(x) = x/2 (1 + tanh u), u = sqrt(2/π) (x + 0.044715 x³). As (1 + tanh u)/2 is the logistic function of 2u, this is
x / (1 + exp(-2u)): one exponential, forward and backward, in fp32 registers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .sizes import multiple, same_shape

TILE, BACKWARD = (8, 512), (4, 1024)


@triton.jit
def logistic(x):
    """1 / (1 + exp(-2u)); 2.302208 is 2 sqrt(2/π) log2(e)."""
    return 1.0 / (1.0 + tl.exp2(-2.302208198 * (x + 0.044715 * x * x * x)))


@triton.jit
def gelu_of(x):
    return x * logistic(x)


@triton.jit
def gelu_slope(x):
    """d gelu / dx = s + x s (1 - s) d(2u)/dx, with s the logistic function of 2u; 1.595769 is 2 sqrt(2/π)."""
    s = logistic(x)
    return s + x * s * (1.0 - s) * 1.5957691216 * (1.0 + 0.134145 * x * x)


@triton.jit
def gelu_kernel(BEFORE, BIAS, AFTER, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * WIDTH + columns[None, :]
    bias = tl.load(BIAS + columns).to(tl.float32)
    x = tl.load(BEFORE + at).to(tl.float32) + bias[None, :]
    tl.store(AFTER + at, gelu_of(x).to(AFTER.dtype.element_ty))


def gelu(before: Tensor, bias: Tensor) -> Tensor:
    """GELU of before + bias. before: [rows, width], rows a multiple of 8, width of 512; bias: [width]. ValueError."""
    rows, width = before.shape
    height, breadth = TILE
    multiple("rows", rows, height), multiple("width", width, breadth)
    after = torch.empty_like(before)
    gelu_kernel[(width // breadth, rows // height)](
        before, bias, after, WIDTH=width, ROWS=height, COLUMNS=breadth, num_warps=4
    )
    return after


@triton.jit
def gelu_backward_kernel(
    GRADIENT, BEFORE, BIAS, OUT, PARTS, stride, rows_in_all,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mine = tl.program_id(1)
    bias = tl.load(BIAS + columns).to(tl.float32)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in tl.range(mine * ROWS, rows_in_all, PROGRAMS * ROWS, num_stages=STAGES):
        at = (first + tl.arange(0, ROWS))[:, None] * WIDTH + columns[None, :]
        x = tl.load(BEFORE + at).to(tl.float32) + bias[None, :]
        slope = tl.load(GRADIENT + at).to(tl.float32) * gelu_slope(x)
        tl.store(OUT + at, slope.to(OUT.dtype.element_ty))
        sums += slope
    tl.store(PARTS + mine * stride + columns, tl.sum(sums, 0))


def gelu_backward(gradient: Tensor, before: Tensor, bias: Tensor, parts: Tensor) -> Tensor:
    """The gradient of `before`. gradient, before: [rows, width], rows a multiple of 8, width of 512; bias: [width].

    parts: fp32 [programs, width] is overwritten with partial column sums of the answer, which is the gradient of the
    bias. ValueError for other shapes.
    """
    rows, width = before.shape
    height, breadth = BACKWARD if width % BACKWARD[1] == 0 else TILE
    multiple("rows", rows, height), multiple("width", width, breadth)
    same_shape(before=before, gradient=gradient)
    if parts.shape[1] != width:
        raise ValueError(f"parts are {list(parts.shape)}; this kernel writes rows of width = {width}")
    out = torch.empty_like(gradient)
    gelu_backward_kernel[(width // breadth, len(parts))](
        gradient, before, bias, out, parts, parts.stride(0), rows, PROGRAMS=len(parts),
        WIDTH=width, ROWS=height, COLUMNS=breadth, STAGES=2, num_warps=4,
    )  # fmt: skip
    return out
