"""Helpers of the others: sums of rows, and matrices turned."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .sizes import multiple

COLUMNS, SIDE = 128, 64
TILE = (32, 128)
ADDED = 16


@triton.jit
def column_sums_kernel(PARTS, OUT, stride, width, height, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in tl.range(0, height, ROWS):
        rows = (first + tl.arange(0, ROWS))[:, None]
        sums += tl.load(PARTS + rows * stride + columns[None, :], mask=inside[None, :] & (rows < height), other=0.0)
    tl.store(OUT + columns, tl.sum(sums, 0), mask=inside)


def column_sums(parts: Tensor, out: Tensor) -> None:
    """out becomes the sum of parts' rows, always in the same order. parts: fp32 [height, width]; out: fp32 [width]."""
    height, width = parts.shape
    if out.shape != (width,):
        raise ValueError(f"out is {list(out.shape)}; parts are {list(parts.shape)}, so it must be [{width}]")
    column_sums_kernel[(triton.cdiv(width, COLUMNS),)](
        parts, out, parts.stride(0), width, height, BLOCK=COLUMNS, ROWS=ADDED, num_warps=4
    )


@triton.jit
def leave_sums_kernel(
    X, PARTS, x_stride, stride, rows_in_all,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    mine = tl.program_id(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in tl.range(mine * ROWS, rows_in_all, PROGRAMS * ROWS, num_stages=STAGES):
        rows = (first + tl.arange(0, ROWS))[:, None]
        sums += tl.load(X + rows * x_stride + columns[None, :]).to(tl.float32)
    tl.store(PARTS + mine * stride + columns, tl.sum(sums, 0))


def leave_sums(x: Tensor, parts: Tensor) -> None:
    """parts become partial sums of x's rows: what column_sums adds up. x: [rows, width], rows a multiple of 32, width
    of 128, any stride between rows; parts: fp32 [programs, width]. ValueError for other shapes.
    """
    rows, width = x.shape
    height, breadth = TILE
    multiple("rows", rows, height), multiple("width", width, breadth)
    if parts.shape[1] != width:
        raise ValueError(f"parts are {list(parts.shape)}; x is {list(x.shape)}, so their rows must have {width}")
    leave_sums_kernel[(width // breadth, len(parts))](
        x, parts, x.stride(0), parts.stride(0), rows, PROGRAMS=len(parts),
        ROWS=height, COLUMNS=breadth, STAGES=3, num_warps=4,
    )  # fmt: skip


@triton.jit
def transpose_kernel(X, OUT, rows, columns, stride, SIDE: tl.constexpr):
    layer = tl.program_id(2).to(tl.int64)
    X += layer * stride
    OUT += layer * rows * columns
    c = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    r = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    tile = tl.load(X + r[:, None] * columns + c[None, :])
    tl.store(OUT + c[:, None] * rows + r[None, :], tl.trans(tile))


def transpose(x: Tensor, out: Tensor) -> None:
    """out[layer] becomes the transpose of x[layer]. x: [layers, rows, columns], any stride between the layers, rows and
    columns multiples of 64; out: contiguous [layers, columns, rows] of the same dtype. ValueError for other shapes.
    """
    layers, rows, columns = x.shape
    multiple("rows", rows, SIDE), multiple("columns", columns, SIDE)
    if out.shape != (layers, columns, rows) or not out.is_contiguous():
        raise ValueError(f"out is {list(out.shape)}; it must be contiguous, of shape {[layers, columns, rows]}")
    transpose_kernel[(columns // SIDE, rows // SIDE, layers)](
        x, out, rows, columns, x.stride(0), SIDE=SIDE, num_warps=4
    )
