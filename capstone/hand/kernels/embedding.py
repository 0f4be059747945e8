"""The embeddings: rows gathered and added, and gradients scattered back to the rows they came from."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .sizes import multiple

ROWS, WARPS = 4, 4


@triton.jit
def embed_kernel(
    TOKENS, TABLE, POSITIONS, OUT, length, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)[None, :]
    mask = (columns < DIM) & (rows >= 0)[:, None]
    token = tl.load(TOKENS + rows)[:, None]
    x = tl.load(TABLE + token * DIM + columns, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(POSITIONS + (rows % length)[:, None] * DIM + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(OUT + rows[:, None] * DIM + columns, x.to(OUT.dtype.element_ty), mask=mask)


def embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """[batch · length, dim], of the table's dtype: each token's row of the table plus its position's.

    tokens: int64 [batch, length], ids of the table (not checked); table: [vocabulary, dim]; positions: [context, dim].
    ValueError unless batch · length is a multiple of 4.
    """
    rows, dim = multiple("batch · length", tokens.numel(), ROWS), table.shape[1]
    out = table.new_empty(rows, dim)
    embed_kernel[(rows // ROWS,)](
        tokens, table, positions, out, tokens.shape[1],
        DIM=dim, BLOCK=triton.next_power_of_2(dim), ROWS=ROWS, num_warps=WARPS,
    )  # fmt: skip
    return out


@triton.jit
def embed_backward_kernel(GRADIENT, TOKENS, OUT, DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)[None, :]
    mask = (columns < DIM) & (rows >= 0)[:, None]
    gradient = tl.load(GRADIENT + rows[:, None] * DIM + columns, mask=mask, other=0.0).to(tl.float32)
    token = tl.load(TOKENS + rows)[:, None]
    tl.atomic_add(OUT + token * DIM + columns, gradient, mask=mask, sem="relaxed")


def embed_backward_(gradient: Tensor, tokens: Tensor, out: Tensor) -> None:
    """out[token] += gradient[row] for each row. gradient: [rows, dim]; tokens: int64, rows of them; out: fp32 table.

    Rows of one token are added in no fixed order, so that the last bits differ from run to run. ValueError unless rows
    is a multiple of 4.
    """
    rows, dim = gradient.shape
    multiple("rows", rows, ROWS)
    embed_backward_kernel[(rows // ROWS,)](
        gradient, tokens, out, DIM=dim, BLOCK=triton.next_power_of_2(dim), ROWS=ROWS, num_warps=WARPS
    )
