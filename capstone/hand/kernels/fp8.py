"""Matrices made in fp8, where they are made: no pass of its own reads them again to quantise or to transpose.

Each kernel here ends in `put_four_rows`. It holds four rows at a time, because four fp8 bytes of one column are one
32-bit word of the transpose, and a tile of words is turned four times as cheaply as a tile of bytes. It is also the
way round a miscompilation: after a packed fp8 conversion the ptxas of Triton 3.6 takes wrong registers for single
bytes that Triton extracts, so the word is put together in PTX.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import knobs

from ..forms import E5M2 as FORMAT_E5M2
from ..forms import LIMIT, PITCH, Fp8Forms, ScaleSlot, WantedForms
from .activation import gelu_of, gelu_slope
from .head import EACH, LANES, LOG2_E, mass_and_loss
from .head import WARPS as HEAD_WARPS
from .norm import stream_and_norm
from .sizes import multiple, same_shape
from .sums import transpose

WORDS, COLUMNS, WARPS = 16, 64, 2
CAST_ROWS = 4 * WORDS
ASM = not knobs.runtime.interpret
"""The interpreter knows no PTX, and has Triton's own conversions, which are right there."""


@triton.jit
def widen(x, ASM: tl.constexpr):
    """fp32. From bf16 by shifts: above a plain conversion Triton (3.6) may change layouts, and then compute twice."""
    if ASM and x.dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=r,=r,r", [x], dtype=tl.float32, is_pure=True, pack=2
        )
    else:
        return x.to(tl.float32)


@triton.jit
def byte(x, E5M2: tl.constexpr, ASM: tl.constexpr):
    """The bits of x as fp8, cut off at the format's limit."""
    limit: tl.constexpr = 57344.0 if E5M2 else 448.0
    kind: tl.constexpr = tl.float8e5 if E5M2 else tl.float8e4nv
    x = tl.minimum(tl.maximum(x, -limit), limit)
    if not ASM:  # the interpreter (3.7) loses a carry into the exponent, 31.5 becomes 16: round before it can
        dropped: tl.constexpr = 21 if E5M2 else 20
        bits = x.to(tl.int32, bitcast=True)
        bits += (1 << (dropped - 1)) - 1 + ((bits >> dropped) & 1)
        x = ((bits >> dropped) << dropped).to(tl.float32, bitcast=True)
    return x.to(kind).to(tl.uint8, bitcast=True)


@triton.jit
def word(a, b, c, d, E5M2: tl.constexpr, ASM: tl.constexpr):
    """Four numbers as fp8, cut off at the format's limit, in a 32-bit word; a is the lowest byte."""
    if not ASM:
        low = byte(a, E5M2, ASM).to(tl.int32) | (byte(b, E5M2, ASM).to(tl.int32) << 8)
        return low | (byte(c, E5M2, ASM).to(tl.int32) << 16) | (byte(d, E5M2, ASM).to(tl.int32) << 24)
    elif E5M2:
        return tl.inline_asm_elementwise(
            "{.reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, $2, $1; "
            "cvt.rn.satfinite.e5m2x2.f32 high, $4, $3; mov.b32 $0, {low, high};}",
            "=r,f,f,f,f", [a, b, c, d], dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        return tl.inline_asm_elementwise(
            "{.reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1; "
            "cvt.rn.satfinite.e4m3x2.f32 high, $4, $3; mov.b32 $0, {low, high};}",
            "=r,f,f,f,f", [a, b, c, d], dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip


@triton.jit
def note_peak(x, seen, PEAK):
    """Only a new maximum is worth an atomic: most tiles have none, and would wait for each other."""
    top = tl.max(tl.abs(x))
    if top > seen:
        tl.atomic_max(PEAK, top, sem="relaxed")


@triton.jit
def load_four_rows(POINTER, at, width, ASM: tl.constexpr):
    a, b = tl.load(POINTER + at), tl.load(POINTER + at + width)
    c, d = tl.load(POINTER + at + 2 * width), tl.load(POINTER + at + 3 * width)
    return widen(a, ASM), widen(b, ASM), widen(c, ASM), widen(d, ASM)


@triton.jit
def put_four_rows(
    a, b, c, d, FLAT, TURNED, PLAIN, scale, seen, PEAK, words, columns, height, width,
    E5M2: tl.constexpr, TO_FLAT: tl.constexpr, TO_TURNED: tl.constexpr, TO_PLAIN: tl.constexpr, ASM: tl.constexpr,
):  # fmt: skip
    """Rows 4 w to 4 w + 3 of the tile's columns, in the forms that are wanted."""
    top = tl.maximum(tl.maximum(tl.abs(a), tl.abs(b)), tl.maximum(tl.abs(c), tl.abs(d)))
    note_peak(top, seen, PEAK)
    at = (4 * words)[:, None] * width + columns[None, :]
    if TO_PLAIN:
        kind: tl.constexpr = PLAIN.dtype.element_ty
        tl.store(PLAIN + at, a.to(kind))
        tl.store(PLAIN + at + width, b.to(kind))
        tl.store(PLAIN + at + 2 * width, c.to(kind))
        tl.store(PLAIN + at + 3 * width, d.to(kind))
    four = word(a * scale, b * scale, c * scale, d * scale, E5M2, ASM)
    if TO_FLAT:
        tl.store(FLAT + at, four.to(tl.int8))
        tl.store(FLAT + at + width, (four >> 8).to(tl.int8))
        tl.store(FLAT + at + 2 * width, (four >> 16).to(tl.int8))
        tl.store(FLAT + at + 3 * width, (four >> 24).to(tl.int8))
    if TO_TURNED:
        tl.store(TURNED + columns[:, None] * (height // 4) + words[None, :], tl.trans(four))


@triton.jit
def cast_kernel(
    X, FLAT, TURNED, SCALE, PEAK, PARTS, height, width, stride, pitch, parts_stride, summed,
    E5M2: tl.constexpr, TO_FLAT: tl.constexpr, TO_TURNED: tl.constexpr, ASM: tl.constexpr,
    WORDS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    layer = tl.program_id(2).to(tl.int64)
    scale, seen = tl.load(SCALE + layer * pitch), tl.load(PEAK + layer * pitch)
    X += layer * stride
    FLAT += layer * height * width
    TURNED += layer * (height // 4) * width
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    at = (4 * words)[:, None] * width + columns[None, :]
    a, b, c, d = load_four_rows(X, at, width, ASM)
    if tl.program_id(0) * COLUMNS < summed:
        tl.store(PARTS + tl.program_id(1) * parts_stride + columns, tl.sum(a + b + c + d, 0))
    put_four_rows(
        a, b, c, d, FLAT, TURNED, X, scale, seen, PEAK + layer * pitch, words, columns,
        height, width, E5M2, TO_FLAT, TO_TURNED, False, ASM,
    )  # fmt: skip


def cast(x: Tensor, slot: ScaleSlot, wanted: WantedForms, parts: Tensor | None = None) -> Fp8Forms:
    """The forms of x, [rows, columns] or a stack [layers, rows, columns] (any stride between the layers).

    Rows and columns are multiples of 64, else ValueError. The slot's peak rises to x's largest magnitude. parts: fp32
    [rows / 64, some], become partial sums of the first columns of a matrix, as many as they have, a multiple of 64.
    """
    stack = x if x.ndim == 3 else x[None]
    layers, height, width = stack.shape
    out = _Outputs(stack, height, width, replace(wanted, plain=False))
    flat, turned, _ = out.pointers(stack)
    flags = {name: value for name, value in out.flags.items() if name != "TO_PLAIN"}
    if parts is not None:
        _check_parts(parts, height, multiple("summed", parts.shape[1], COLUMNS))
    left, stride, summed = (slot.peak, 0, 0) if parts is None else (parts, parts.stride(0), parts.shape[1])
    cast_kernel[(*_grid(height, width), layers)](
        stack, flat, turned, slot.scale, slot.peak, left, height, width, stack.stride(0), PITCH, stride, summed, **flags
    )
    forms = out.forms(stacked=x.ndim == 3)
    return Fp8Forms(forms.rows, forms.turned, x if wanted.plain else None)


@triton.jit
def gelu_cast_kernel(
    BEFORE, BIAS, FLAT, TURNED, PLAIN, SCALE, PEAK, height, width,
    E5M2: tl.constexpr, TO_FLAT: tl.constexpr, TO_TURNED: tl.constexpr, TO_PLAIN: tl.constexpr, ASM: tl.constexpr,
    WORDS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    scale, seen = tl.load(SCALE), tl.load(PEAK)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    bias = tl.load(BIAS + columns).to(tl.float32)[None, :]
    at = (4 * words)[:, None] * width + columns[None, :]
    a, b, c, d = load_four_rows(BEFORE, at, width, ASM)
    put_four_rows(
        gelu_of(a + bias), gelu_of(b + bias), gelu_of(c + bias), gelu_of(d + bias),
        FLAT, TURNED, PLAIN, scale, seen, PEAK, words, columns, height, width,
        E5M2, TO_FLAT, TO_TURNED, TO_PLAIN, ASM,
    )  # fmt: skip


def gelu_cast(before: Tensor, bias: Tensor, slot: ScaleSlot, wanted: WantedForms) -> Fp8Forms:
    """The forms of GELU(before + bias); before: [rows, width], multiples of 64, else ValueError."""
    height, width = before.shape
    out = _Outputs(before, height, width, wanted)
    gelu_cast_kernel[_grid(height, width)](
        before, bias, *out.pointers(before), slot.scale, slot.peak, height, width, **out.flags
    )
    return out.forms()


@triton.jit
def gelu_backward_cast_kernel(
    GRADIENT, BEFORE, BIAS, FLAT, TURNED, PLAIN, SCALE, PEAK, PARTS, stride, height, width,
    E5M2: tl.constexpr, TO_FLAT: tl.constexpr, TO_TURNED: tl.constexpr, TO_PLAIN: tl.constexpr, ASM: tl.constexpr,
    WORDS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    scale, seen = tl.load(SCALE), tl.load(PEAK)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    bias = tl.load(BIAS + columns).to(tl.float32)[None, :]
    at = (4 * words)[:, None] * width + columns[None, :]
    xa, xb, xc, xd = load_four_rows(BEFORE, at, width, ASM)
    a, b, c, d = load_four_rows(GRADIENT, at, width, ASM)
    a, b = a * gelu_slope(xa + bias), b * gelu_slope(xb + bias)
    c, d = c * gelu_slope(xc + bias), d * gelu_slope(xd + bias)
    tl.store(PARTS + tl.program_id(1) * stride + columns, tl.sum(a + b + c + d, 0))
    put_four_rows(
        a, b, c, d, FLAT, TURNED, PLAIN, scale, seen, PEAK, words, columns, height, width,
        E5M2, TO_FLAT, TO_TURNED, TO_PLAIN, ASM,
    )  # fmt: skip


def gelu_backward_cast(
    gradient: Tensor, before: Tensor, bias: Tensor, parts: Tensor, slot: ScaleSlot, wanted: WantedForms
) -> Fp8Forms:
    """The forms of the gradient of `before`; parts: fp32 [rows / 64, width], as `gelu_backward`'s."""
    height, width = before.shape
    same_shape(before=before, gradient=gradient)
    _check_parts(parts, height, width)
    out = _Outputs(gradient, height, width, wanted)
    gelu_backward_cast_kernel[_grid(height, width)](
        gradient, before, bias, *out.pointers(gradient), slot.scale, slot.peak, parts, parts.stride(0), height, width,
        **out.flags,
    )  # fmt: skip
    return out.forms()


@triton.jit
def add_norm_cast_kernel(
    X, BRANCH, BIAS, WEIGHT, SHIFT, STREAM, FLAT, PLAIN, MEAN, RSTD, SCALE, PEAK, eps,
    DIM: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr, E5M2: tl.constexpr, TO_PLAIN: tl.constexpr,
    ASM: tl.constexpr,
):  # fmt: skip
    scale, seen = tl.load(SCALE), tl.load(PEAK)
    normed, at, mask = stream_and_norm(X, BRANCH, BIAS, WEIGHT, SHIFT, STREAM, MEAN, RSTD, eps, DIM, BLOCK, 1, ADD)
    normed = tl.where(mask, normed, 0.0)
    note_peak(normed, seen, PEAK)
    if TO_PLAIN:
        tl.store(PLAIN + at, normed.to(PLAIN.dtype.element_ty), mask=mask)
    tl.store(FLAT + at, byte(normed * scale, E5M2, ASM).to(tl.int8, bitcast=True), mask=mask)


def add_norm_cast(
    x: Tensor, branch: Tensor | None, bias: Tensor | None, weight: Tensor, shift: Tensor, eps: float,
    slot: ScaleSlot, wanted: WantedForms,
) -> tuple[Tensor, Fp8Forms, Tensor, Tensor]:  # fmt: skip
    """As `add_norm`, with the forms of the normalised rows; rows and dim are multiples of 64, else ValueError."""
    height, dim = x.shape
    add = branch is not None
    same_shape(x=x, **({"branch": branch} if add else {}))
    out = _Outputs(x, height, dim, wanted)
    flat = torch.empty_like(x, dtype=wanted.dtype)
    stream = torch.empty_like(x) if add else x
    mean, rstd = x.new_empty(2, height, dtype=torch.float32)
    add_norm_cast_kernel[(height,)](
        x, branch if add else x, bias if add else weight, weight, shift, stream, flat.view(torch.int8),
        x if out.plain is None else out.plain, mean, rstd, slot.scale, slot.peak, eps, DIM=dim,
        BLOCK=triton.next_power_of_2(dim), ADD=add, E5M2=out.flags["E5M2"], TO_PLAIN=wanted.plain, ASM=ASM, num_warps=1,
    )  # fmt: skip
    if out.turned is not None:
        transpose(flat.view(torch.int8)[None], out.turned.view(torch.int8))
    forms = out.forms()
    return stream, Fp8Forms(flat if wanted.rows else None, forms.turned, forms.plain), mean, rstd


@triton.jit
def cross_entropy_cast_kernel(
    LOGITS, TARGETS, LOSSES, FLAT, scale, limit, log2_limit,
    VOCABULARY: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr, E5M2: tl.constexpr, TO_PLAIN: tl.constexpr,
    ASM: tl.constexpr,
):  # fmt: skip
    """As `cross_entropy_kernel`, but the gradient is fp8, of another size, and cannot lie where the logits do."""
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * VOCABULARY
    FLAT += row * VOCABULARY
    at = tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    whole: tl.constexpr = VOCABULARY // (LANES * EACH) * (LANES * EACH)
    inside = whole + at < VOCABULARY
    target = tl.load(TARGETS + row)
    log2_mass, loss = mass_and_loss(LOGITS, target, at, VOCABULARY, LANES, EACH)
    tl.store(LOSSES + row, loss)
    tl.debug_barrier()  # the target's logit has been read
    shift = log2_mass - log2_limit
    for first in tl.range(0, whole, LANES * EACH):
        z = tl.load(LOGITS + first + at, eviction_policy="evict_first").to(tl.float32)
        z = tl.exp2(z * LOG2_E - shift)
        tl.store(FLAT + first + at, byte(z, E5M2, ASM).to(tl.int8, bitcast=True), eviction_policy="evict_first")
        if TO_PLAIN:
            tl.store(LOGITS + first + at, (z * scale).to(LOGITS.dtype.element_ty))
    z = tl.load(LOGITS + whole + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
    z = tl.exp2(z * LOG2_E - shift)
    tl.store(FLAT + whole + at, byte(z, E5M2, ASM).to(tl.int8, bitcast=True), mask=inside)
    if TO_PLAIN:
        tl.store(LOGITS + whole + at, (z * scale).to(LOGITS.dtype.element_ty), mask=inside)
    tl.debug_barrier()  # the target's place has been written by whoever had it
    own = tl.zeros([4], tl.float32) + (tl.exp2(-loss * LOG2_E) - 1.0) * limit
    place = target + tl.zeros([4], tl.int64)
    tl.store(FLAT + place, byte(own, E5M2, ASM).to(tl.int8, bitcast=True))
    if TO_PLAIN:
        tl.store(LOGITS + place, (own * scale).to(LOGITS.dtype.element_ty))


def cross_entropy_cast(logits: Tensor, targets: Tensor, scale: float, wanted: WantedForms) -> tuple[Tensor, Fp8Forms]:
    """Each row's loss in nats, fp32 [rows], and the forms of (softmax - one hot) * scale; `scale` is fp8's largest.

    logits: [rows, vocabulary], both multiples of 64, else ValueError; the plain form takes their place, if it is
    wanted. targets: int64 [rows].
    """
    rows, vocabulary = logits.shape
    out = _Outputs(logits, rows, vocabulary, replace(wanted, plain=False))
    flat = torch.empty_like(logits, dtype=wanted.dtype) if out.rows is None else out.rows[0]
    losses = logits.new_empty(rows, dtype=torch.float32)
    limit = LIMIT[wanted.dtype]
    cross_entropy_cast_kernel[(rows,)](
        logits, targets, losses, flat.view(torch.int8), scale / limit, limit, math.log2(limit), VOCABULARY=vocabulary,
        LANES=LANES, EACH=EACH, E5M2=out.flags["E5M2"], TO_PLAIN=wanted.plain, ASM=ASM, num_warps=HEAD_WARPS,
    )  # fmt: skip
    if out.turned is not None:
        transpose(flat.view(torch.int8)[None], out.turned.view(torch.int8))
    forms = out.forms()
    return losses, Fp8Forms(forms.rows, forms.turned, logits if wanted.plain else None)


def cast_parts(rows: int) -> int:
    """The height of the partial sums that the casts of [rows, …] leave: one row a tile."""
    return multiple("rows", rows, CAST_ROWS) // CAST_ROWS


def scaled_product(
    a: Tensor, a_slot: ScaleSlot, b: Tensor, b_slot: ScaleSlot, dtype: torch.dtype,
    *, exact: bool, bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """a @ b.T of fp8 matrices [m, k] and [n, k], scaled back, plus bias and added. exact: sums are kept in full
    float32, and not for some steps in the matrix unit's narrower accumulator."""
    scales = a_slot.inverse[0, 0], b_slot.inverse[0, 0]
    more = {} if out is None else {"out": out}
    # torch's public scaled_mm (2.13) has no `out`, and a copy of a weight's gradient would cost a pass
    made = torch._scaled_mm(a, b.t(), *scales, bias=bias, out_dtype=dtype, use_fast_accum=not exact, **more)
    return made if added is None else made + added


def _grid(height: int, width: int) -> tuple[int, int]:
    return multiple("columns", width, COLUMNS) // COLUMNS, multiple("rows", height, CAST_ROWS) // CAST_ROWS


def _check_parts(parts: Tensor, height: int, width: int) -> None:
    if parts.shape != (cast_parts(height), width):
        raise ValueError(f"parts are {list(parts.shape)}; these kernels leave {[cast_parts(height), width]}")


class _Outputs:
    """Memory for the forms that are wanted, and how a kernel is told of them."""

    def __init__(self, x: Tensor, height: int, width: int, wanted: WantedForms) -> None:
        _grid(height, width)
        layers = len(x) if x.ndim == 3 else 1
        self.rows = x.new_empty(layers, height, width, dtype=wanted.dtype) if wanted.rows else None
        self.turned = x.new_empty(layers, width, height, dtype=wanted.dtype) if wanted.turned else None
        self.plain = x.new_empty(height, width) if wanted.plain and x.ndim == 2 else None
        self.flags = {
            "E5M2": wanted.dtype == FORMAT_E5M2,
            "TO_FLAT": wanted.rows, "TO_TURNED": wanted.turned, "TO_PLAIN": wanted.plain,
            "ASM": ASM, "WORDS": WORDS, "COLUMNS": COLUMNS, "num_warps": WARPS,
        }  # fmt: skip

    def pointers(self, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bytes as bytes, four rows of the transpose as a word; `other` stands for what is not written."""
        return (
            other if self.rows is None else self.rows.view(torch.int8),
            other if self.turned is None else self.turned.view(torch.int32),
            other if self.plain is None else self.plain,
        )

    def forms(self, stacked: bool = False) -> Fp8Forms:
        rows, turned = (each if each is None or stacked else each[0] for each in (self.rows, self.turned))
        return Fp8Forms(rows, turned, self.plain)
