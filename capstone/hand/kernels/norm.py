"""The residual stream and its layer norm in one visit, and their backward in one.

Left to itself each of these is a pass over [rows, dim]: adding the linear's bias, adding the branch to the stream, the
mean, the deviation, the product with the weight. Here a row is read once, and held in registers until all is done.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .sizes import multiple, same_shape, three_powers

ROWS, WARPS = 2, 4


@triton.jit
def stream_and_norm(
    X, BRANCH, BIAS, WEIGHT, SHIFT, STREAM, MEAN, RSTD, eps,
    DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """The normalised rows in fp32, their offsets and their mask; stream, mean and 1/deviation are stored."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = columns < DIM
    mask = inside[None, :] & (rows >= 0)[:, None]
    at = rows[:, None] * DIM + columns[None, :]
    x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
    if ADD:
        bias = tl.load(BIAS + columns, mask=inside, other=0.0).to(tl.float32)
        x += tl.load(BRANCH + at, mask=mask, other=0.0).to(tl.float32) + bias[None, :]
        rounded = x.to(STREAM.dtype.element_ty)
        tl.store(STREAM + at, rounded, mask=mask)
        x = rounded.to(tl.float32)  # the backward will see the stream as it was stored, and so must the norm
    mean = tl.sum(x, 1) / DIM
    centred = tl.where(mask, x - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / DIM + eps)
    tl.store(MEAN + rows, mean)
    tl.store(RSTD + rows, rstd)
    weight = tl.load(WEIGHT + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    shift = tl.load(SHIFT + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    return centred * rstd[:, None] * weight + shift, at, mask


@triton.jit
def add_norm_kernel(
    X, BRANCH, BIAS, WEIGHT, SHIFT, STREAM, NORMED, MEAN, RSTD, eps,
    DIM: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    normed, at, mask = stream_and_norm(X, BRANCH, BIAS, WEIGHT, SHIFT, STREAM, MEAN, RSTD, eps, DIM, BLOCK, ROWS, ADD)
    tl.store(NORMED + at, normed.to(NORMED.dtype.element_ty), mask=mask)


def add_norm(
    x: Tensor, branch: Tensor | None, bias: Tensor | None, weight: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(stream, normed, mean, rstd): stream = x + branch + bias, normed = its layer norm times weight plus shift.

    x, branch: [rows, dim] of one dtype, rows a multiple of 2; bias, weight, shift: [dim]. branch None: the stream is x
    itself. normed has x's dtype; mean and rstd (1 / deviation) are fp32 [rows]. ValueError for other rows or shapes.
    """
    rows, dim = x.shape
    multiple("rows", rows, ROWS)
    add = branch is not None
    same_shape(x=x, **({"branch": branch} if add else {}))
    stream = torch.empty_like(x) if add else x
    normed = torch.empty_like(x)
    mean, rstd = x.new_empty(2, rows, dtype=torch.float32)
    add_norm_kernel[(rows // ROWS,)](
        x, branch if add else x, bias if add else weight, weight, shift, stream, normed, mean, rstd, eps,
        DIM=dim, BLOCK=triton.next_power_of_2(dim), ROWS=ROWS, ADD=add, num_warps=WARPS,
    )  # fmt: skip
    return stream, normed, mean, rstd


@triton.jit
def thirds(POINTER, at, THIRD: tl.constexpr):
    """A row of three times a power of two, as three loads."""
    return tl.load(POINTER + at), tl.load(POINTER + at + THIRD), tl.load(POINTER + at + 2 * THIRD)


@triton.jit
def store_thirds(POINTER, at, a, b, c, THIRD: tl.constexpr):
    kind: tl.constexpr = POINTER.dtype.element_ty
    tl.store(POINTER + at, a.to(kind))
    tl.store(POINTER + at + THIRD, b.to(kind))
    tl.store(POINTER + at + 2 * THIRD, c.to(kind))


@triton.jit
def norm_backward_kernel(
    GRADIENT, STREAM, MEAN, RSTD, WEIGHT, PASSED, OUT, PARTS, stride, rows_in_all,
    THIRD: tl.constexpr, PASS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0)
    columns = tl.arange(0, THIRD)
    w0, w1, w2 = thirds(WEIGHT, columns, THIRD)
    w0, w1, w2 = w0.to(tl.float32), w1.to(tl.float32), w2.to(tl.float32)
    dim: tl.constexpr = 3 * THIRD
    zero = tl.zeros([THIRD], tl.float32)
    weight0, weight1, weight2 = zero, zero, zero
    shift0, shift1, shift2 = zero, zero, zero
    bias0, bias1, bias2 = zero, zero, zero
    for row in tl.range(first, rows_in_all, PROGRAMS, num_stages=STAGES):
        at = row * dim + columns
        d0, d1, d2 = thirds(GRADIENT, at, THIRD)
        x0, x1, x2 = thirds(STREAM, at, THIRD)
        if PASS:
            p0, p1, p2 = thirds(PASSED, at, THIRD)
        mean, rstd = tl.load(MEAN + row), tl.load(RSTD + row)
        d0, d1, d2 = d0.to(tl.float32), d1.to(tl.float32), d2.to(tl.float32)
        x0, x1, x2 = (
            (x0.to(tl.float32) - mean) * rstd,
            (x1.to(tl.float32) - mean) * rstd,
            (x2.to(tl.float32) - mean) * rstd,
        )
        g0, g1, g2 = d0 * w0, d1 * w1, d2 * w2
        along = tl.sum(x0 * g0 + x1 * g1 + x2 * g2, 0) / dim  # what the deviation and the mean take away
        level = tl.sum(g0 + g1 + g2, 0) / dim
        g0, g1, g2 = (
            (g0 - x0 * along - level) * rstd,
            (g1 - x1 * along - level) * rstd,
            (g2 - x2 * along - level) * rstd,
        )
        if PASS:
            g0 += p0.to(tl.float32)
            g1 += p1.to(tl.float32)
            g2 += p2.to(tl.float32)
        store_thirds(OUT, at, g0, g1, g2, THIRD)
        bias0, bias1, bias2 = bias0 + g0, bias1 + g1, bias2 + g2
        weight0, weight1, weight2 = weight0 + d0 * x0, weight1 + d1 * x1, weight2 + d2 * x2
        shift0, shift1, shift2 = shift0 + d0, shift1 + d1, shift2 + d2
    part = first * stride + columns
    store_thirds(PARTS, part, bias0, bias1, bias2, THIRD)
    store_thirds(PARTS, part + dim, weight0, weight1, weight2, THIRD)
    store_thirds(PARTS, part + 2 * dim, shift0, shift1, shift2, THIRD)


def norm_backward(
    gradient: Tensor, stream: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor, passed: Tensor | None, parts: Tensor
) -> Tensor:
    """The gradient of the stream: what comes through the layer norm, and `passed`, which goes round it.

    gradient (of the normalised rows), stream, passed: [rows, dim], dim three times a power of two; mean, rstd: fp32
    [rows]; weight: [dim]. parts: fp32 [programs, 3 dim] (a view will do, its rows contiguous) is overwritten with
    partial column sums of three gradients: of the bias that was added to the stream (the sum of the answer), of the
    norm's weight, and of its shift; `column_sums` adds the rows up. ValueError for other shapes.
    """
    rows, dim = gradient.shape
    third = three_powers("dim", dim)
    passes = passed is not None
    same_shape(gradient=gradient, stream=stream, **({"passed": passed} if passes else {}))
    if parts.shape[1] != 3 * dim:
        raise ValueError(f"parts are {list(parts.shape)}; this kernel writes rows of 3 dim = {3 * dim}")
    out = torch.empty_like(stream)
    norm_backward_kernel[(len(parts),)](
        gradient, stream, mean, rstd, weight, passed if passes else gradient, out, parts, parts.stride(0), rows,
        PROGRAMS=len(parts), THIRD=third, PASS=passes, STAGES=3, num_warps=1,
    )  # fmt: skip
    return out
