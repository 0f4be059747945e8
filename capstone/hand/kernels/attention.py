"""The gradients of queries, keys and values, side by side, as the linear before them wants its gradient."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .sizes import multiple, same_shape

TILE = (16, 256)


@triton.jit
def one_of_three(Q, K, V, which):
    source = Q
    if which == 1:
        source = K
    if which == 2:
        source = V
    return source


@triton.jit
def pack_kernel(
    DQ, DK, DV, OUT, PARTS, stride, rows_in_all,
    DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    mine = tl.program_id(1)
    tiles: tl.constexpr = DIM // COLUMNS
    which = tl.program_id(0) // tiles
    source = one_of_three(DQ, DK, DV, which)
    columns = (tl.program_id(0) % tiles) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in tl.range(mine * ROWS, rows_in_all, PROGRAMS * ROWS, num_stages=STAGES):
        rows = (first + tl.arange(0, ROWS))[:, None]
        x = tl.load(source + rows * DIM + columns[None, :])
        tl.store(OUT + rows * (3 * DIM) + which * DIM + columns[None, :], x)
        sums += x.to(tl.float32)
    tl.store(PARTS + mine * stride + which * DIM + columns, tl.sum(sums, 0))


def pack(dq: Tensor, dk: Tensor, dv: Tensor, parts: Tensor) -> Tensor:
    """[rows, 3 dim]: dq, dk and dv ([rows, dim] each, rows a multiple of 16, dim of 256) beside each other.

    parts: fp32 [programs, 3 dim] is overwritten with partial column sums, which are the gradient of the linear's bias.
    ValueError for other shapes.
    """
    rows, dim = dq.shape
    height, breadth = TILE
    multiple("rows", rows, height), multiple("dim", dim, breadth)
    same_shape(dq=dq, dk=dk, dv=dv)
    if parts.shape[1] != 3 * dim:
        raise ValueError(f"parts are {list(parts.shape)}; this kernel writes rows of 3 dim = {3 * dim}")
    out = dq.new_empty(rows, 3 * dim)
    pack_kernel[(3 * dim // breadth, len(parts))](
        dq, dk, dv, out, parts, parts.stride(0), rows, PROGRAMS=len(parts),
        DIM=dim, ROWS=height, COLUMNS=breadth, STAGES=3, num_warps=4,
    )  # fmt: skip
    return out
