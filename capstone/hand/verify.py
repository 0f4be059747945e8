"""Every kernel against its reference, on the device and in the run that is about to trust it.

A compiler can be wrong without an error: Triton 3.6's ptxas took wrong registers for single bytes of a packed fp8
conversion, and gradients were 36 % off. What has not been compared here is not used in a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import torch
from torch import Tensor

from . import reference
from .attention import attend
from .forms import E4M3, E5M2, LIMIT, PITCH, Fp8Forms, ScaleSlot, WantedForms
from .matmuls import Matmuls, TunedMatmuls

Finding = tuple[float, float]
"""What was found, and the limit that it must not pass."""

STORED = {torch.bfloat16: 1e-3, torch.float32: 1e-5}
"""Relative error of what is stored: both sides round a float32 result once, and seldom differently."""
SUMMED = 2e-5
"""Relative error of float32 sums over thousands of rows, in another order."""

ATTENDED = 1e-2
"""Relative error of attention in 16 bits: its weights are rounded before they multiply, whoever's kernel it is."""

ROUNDED = 5e-3
"""Relative error of a result in bf16 after an epilogue, whose GELU is the maker's, and of a sum that it stores so."""

BYTES = 1e-3
"""Share of fp8 bytes: a value between two fp8 numbers may fall to either where float32 differs in its last bits."""
FAST = 5e-3
"""Relative error of a matmul whose sums are kept, for some steps, in the matrix unit's narrower accumulator."""


@contextmanager
def _full_float32() -> Iterator[None]:
    """Float32 matmuls in full, whatever a step has set: with TF32 the reference is as rough as what it judges."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@_full_float32()
def verify(
    device: str | torch.device,
    rows: int = 2048,
    dim: int = 768,
    vocabulary: int = 50304,
    dtypes: Sequence[torch.dtype] = tuple(STORED),
) -> dict[str, Finding]:
    """{kernel, dtype and output: (relative error, limit)} for each kernel of a step, Triton against plain torch.

    rows: a multiple of 128; dim: 256 times 3 or 3 · a power of two. Nothing is raised for what is wrong: the caller
    judges, as ``all(found <= limit for found, limit in verify(device).values())`` (a NaN fails that). Triton's
    interpreter cuts bf16 off where a GPU rounds: there, judge float32 alone.
    """
    found: dict[str, Finding] = {}
    for dtype in dtypes:
        for name, check in _CHECKS.items():
            generator = torch.Generator(device).manual_seed(1)
            for output, ours, right in check(_Inputs(device, dtype, generator, rows, dim, vocabulary)):
                label = f"{name} {str(dtype).removeprefix('torch.')}: {output}"
                found[label] = (relative_error(ours, right), STORED[dtype] if ours.dtype == dtype else SUMMED)
    if torch.device(device).type == "cuda":
        for beside in (_attended, _multiplied):
            found |= beside(_Inputs(device, torch.bfloat16, torch.Generator(device).manual_seed(1), rows, dim, 0))
    return found


def relative_error(found: Tensor, right: Tensor) -> float:
    """|found - right| / |right|, in float64; infinite where shapes or dtypes differ."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return float("inf")
    return float((found.double() - right.double()).norm() / right.double().norm())


class _Inputs:
    """Random inputs of one dtype: x(), a matrix; v(), a vector of fp32, as weights of norms are."""

    def __init__(
        self,
        device: str | torch.device,
        dtype: torch.dtype,
        generator: torch.Generator,
        rows: int,
        dim: int,
        words: int,
    ) -> None:
        self.device, self.dtype, self.generator = device, dtype, generator
        self.rows, self.dim, self.vocabulary = rows, dim, words

    def x(self, *shape: int, scale: float = 1.0) -> Tensor:
        shape = shape or (self.rows, self.dim)
        return (scale * torch.randn(shape, generator=self.generator, device=self.device)).to(self.dtype)

    def v(self, *shape: int) -> Tensor:
        return torch.randn(shape or (self.dim,), generator=self.generator, device=self.device)

    def ids(self, *shape: int, below: int) -> Tensor:
        return torch.randint(below, shape, generator=self.generator, device=self.device)

    def parts(self, height: int, width: int) -> Tensor:
        return torch.full((height, width), float("nan"), device=self.device)


Outputs = Iterator[tuple[str, Tensor, Tensor]]


def _both(names: str, function: Callable[[ModuleType], tuple[Tensor, ...]]) -> Outputs:
    """The outputs of a function that takes the module to use, from the kernels and from the reference."""
    from . import kernels

    return zip(names.split(), function(kernels), function(reference), strict=True)


def _add_norm(make: _Inputs) -> Outputs:
    x, branch, bias, weight, shift = make.x(scale=2), make.x(), make.x(make.dim), make.v(), make.v()
    yield from _both("stream normed mean rstd", lambda of: of.add_norm(x, branch, bias, weight, shift, 1e-5))
    yield from _both("first:stream first:normed", lambda of: of.add_norm(x, None, None, weight, shift, 1e-5)[:2])


def _norm_backward(make: _Inputs) -> Outputs:
    stream, gradient, passed, weight = make.x(scale=2), make.x(), make.x(), make.v()
    _, _, mean, rstd = reference.add_norm(stream, None, None, weight, weight, 1e-5)

    def run(of: ModuleType, passed: Tensor | None) -> tuple[Tensor, Tensor]:
        parts = make.parts(of.NORM_PARTS, 3 * make.dim)
        return of.norm_backward(gradient, stream, mean, rstd, weight, passed, parts), parts.sum(0)

    yield from _both("gradient sums", lambda of: run(of, passed))
    yield from _both("last:gradient last:sums", lambda of: run(of, None))


def _gelu(make: _Inputs) -> Outputs:
    width = 4 * make.dim
    before, gradient, bias = make.x(make.rows, width, scale=3), make.x(make.rows, width), make.x(width)

    def backward(of: ModuleType) -> tuple[Tensor, Tensor]:
        parts = make.parts(of.LINEAR_PARTS, width)
        return of.gelu_backward(gradient, before, bias, parts), parts.sum(0)

    yield from _both("after", lambda of: (of.gelu(before, bias),))
    yield from _both("gradient sums", backward)


def _cross_entropy(make: _Inputs) -> Outputs:
    rows = min(make.rows, 256)
    logits, targets = make.x(rows, make.vocabulary, scale=4), make.ids(rows, below=make.vocabulary)

    def run(of: ModuleType) -> tuple[Tensor, Tensor]:
        own = logits.clone()
        losses = of.cross_entropy_(own, targets, 1.0)
        return own, losses

    yield from _both("gradient losses", run)


def _embedding(make: _Inputs) -> Outputs:
    words, length = 97, make.rows // 4  # few words, so that many rows meet in one
    tokens, gradient = make.ids(4, length, below=words), make.x()
    table, positions, start = make.x(words, make.dim), make.x(length, make.dim), make.v(words, make.dim)

    def backward(of: ModuleType) -> tuple[Tensor]:
        out = start.clone()
        of.embed_backward_(gradient, tokens, out)
        return (out,)

    yield from _both("embedded", lambda of: (of.embed(tokens, table, positions),))
    yield from _both("scattered", backward)


def _adamw(make: _Inputs) -> Outputs:
    n = 3001
    master, first, second, gradient = make.v(n), make.v(n), make.v(n).square(), make.x(n)
    count, rate = torch.full((), 3.0, device=make.device), torch.full((), 1e-2, device=make.device)

    def run(of: ModuleType) -> tuple[Tensor, ...]:
        own = master.clone(), first.clone(), second.clone()
        low = None if make.dtype == torch.float32 else master.to(make.dtype)
        of.adamw_(own[0], low, gradient, own[1], own[2], count, rate, (0.9, 0.95), 1e-8, 0.1)
        return *own, own[0] if low is None else low

    yield from _both("master first second low", run)


def _sums(make: _Inputs) -> Outputs:
    parts, stack = make.v(50, 3 * make.dim), make.x(2, make.dim, 128)
    thirds = make.x(make.rows, 3 * make.dim)

    def sums(of: ModuleType) -> tuple[Tensor]:
        out = make.v(3 * make.dim)
        of.column_sums(parts, out)
        return (out,)

    def left(of: ModuleType) -> tuple[Tensor]:
        rows = make.parts(of.LINEAR_PARTS, make.dim)
        of.leave_sums(thirds[:, : make.dim], rows)
        return (rows.sum(0),)

    def turned(of: ModuleType) -> tuple[Tensor]:
        out = stack.new_empty(2, 128, make.dim)
        of.transpose(stack, out)
        return (out,)

    yield from _both("sums", sums)
    yield from _both("left", left)
    yield from _both("turned", turned)


def _attended(make: _Inputs) -> dict[str, Finding]:
    """cuDNN's attention and its gradient against torch's, in float64."""
    qkv, gradient = make.x(2, 256, 3 * make.dim), make.x(512, make.dim)
    ours, right = (attend(each, make.dim // 64) for each in (qkv, qkv.double()))
    pairs = {"answer": (ours.out, right.out), "gradient": (ours.backward(gradient), right.backward(gradient.double()))}
    return {
        f"attention bfloat16: {name}": (relative_error(found, wanted.to(found.dtype)), ATTENDED)
        for name, (found, wanted) in pairs.items()
    }


Widening = Callable[[Tensor], Tensor]
"""Leaves a tensor as it is, or makes it float64."""


def _multiplied(make: _Inputs) -> dict[str, Finding]:
    """cuBLASLt's matmuls and their epilogues against torch's in float64."""
    x, weight, bias = make.x(), make.x(make.dim, 4 * make.dim, scale=0.05), make.x(4 * make.dim)
    added, narrow = make.x(make.rows, 4 * make.dim), make.x()
    matmuls = TunedMatmuls.of(x.device), Matmuls()

    def both(names: str, call: Callable[[Matmuls, Widening], tuple[Tensor, ...]]) -> Iterator[tuple[str, Finding]]:
        ours = call(matmuls[0], lambda each: each)
        right = call(matmuls[1], lambda each: each.double())
        for name, found, wanted in zip(names.split(), ours, right, strict=True):
            limit = SUMMED if found.dtype == torch.float32 else ROUNDED
            yield f"matmul bfloat16: {name}", (relative_error(found, wanted.to(found.dtype)), limit)

    def backward(of: Matmuls, wide: Widening) -> tuple[Tensor, Tensor]:
        sums = torch.zeros(4 * make.dim, dtype=torch.float64, device=make.device)
        return of.gelu_backward(wide(narrow), wide(weight), wide(added), sums), sums.to(make.dtype)

    def summed(of: Matmuls, wide: Widening) -> tuple[Tensor]:
        a, b = wide(x.t()), wide(narrow)
        return (
            of.product(a, b, out=torch.empty(make.dim, make.dim, device=make.device, dtype=wide(bias.float()).dtype)),
        )

    def gradient(of: Matmuls, wide: Widening) -> tuple[Tensor]:
        return (of.product(wide(x.t()), wide(narrow), out=wide(make.x(make.dim, make.dim))),)

    return dict(
        [
            *both("product", lambda of, wide: (of.product(wide(x), wide(weight), wide(bias), wide(added)),)),
            *both("before after", lambda of, wide: of.gelu(wide(x), wide(weight), wide(bias))),
            *both("gradient sums", backward),
            *both("in_float32", summed),
            *both("weight", gradient),
        ]
    )


@_full_float32()
def verify_fp8(
    device: str | torch.device, rows: int = 2048, dim: int = 768, dtype: torch.dtype = torch.bfloat16
) -> dict[str, Finding]:
    """The same for the kernels of an `Fp8Step`. {kernel, format and output: (found, limit)}.

    Of fp8 matrices, what is found is the share of bytes that differ from the reference's ("rows"), and from the bytes
    of which they should be the transpose ("turned", limit 0). Inputs reach one and a half times the scale's range, so
    that some values are cut off. On a GPU the matmul too.
    """
    found: dict[str, Finding] = {}
    for number in (E4M3, E5M2):
        label = str(number).removeprefix("torch.float8_")
        for name, check in _FP8_CHECKS.items():
            make = _Inputs(device, dtype, torch.Generator(device).manual_seed(1), rows, dim, 0)
            for output, pair in check(make, number):
                found[f"{name} {label}: {output}"] = pair
    if torch.device(device).type == "cuda":
        found |= _products(_Inputs(device, dtype, torch.Generator(device).manual_seed(1), rows, dim, 0))
    return found


def differing(found: Tensor, right: Tensor) -> float:
    """The share of bytes that differ; 1 where shapes or dtypes do."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return 1.0
    return float((found.view(torch.uint8) != right.view(torch.uint8)).double().mean())


def _slot(make: _Inputs, number: torch.dtype, top: float, layers: int = 1) -> ScaleSlot:
    """Scales for values up to `top`; the peak is still low."""
    scale = torch.full((layers, PITCH), LIMIT[number] / top, device=make.device)
    return ScaleSlot(scale, 1 / scale, torch.full_like(scale, 1e-12))


Casting = Callable[[ModuleType, ScaleSlot, WantedForms], tuple[Fp8Forms, Tensor | None]]
Fp8Findings = Iterator[tuple[str, Finding]]


def _compared(make: _Inputs, number: torch.dtype, run: Casting, top: float, layers: int = 1) -> Fp8Findings:
    """Forms and sums of the kernel against the reference's; a second run without `plain` must not change the bytes."""
    from . import kernels

    slots = [_slot(make, number, top, layers) for _ in range(3)]
    forms, sums = run(kernels, slots[0], WantedForms(number, plain=layers == 1))
    right, right_sums = run(reference, slots[1], WantedForms(number, plain=layers == 1))
    alone, _ = run(kernels, slots[2], WantedForms(number, turned=False))
    rows = _there(forms.rows)
    yield "rows", (differing(rows, _there(right.rows)), BYTES)
    yield "turned", (differing(_there(forms.turned), rows.transpose(-2, -1).contiguous()), 0.0)
    yield "rows alone", (differing(_there(alone.rows), rows), 0.0)
    yield "peak", (relative_error(slots[0].peak[:, 0], slots[1].peak[:, 0]), SUMMED)
    if forms.plain is not None:
        yield "plain", (relative_error(forms.plain, _there(right.plain)), STORED[make.dtype])
    if sums is not None:
        yield "sums", (relative_error(sums, _there(right_sums)), SUMMED)


def _there(form: Tensor | None) -> Tensor:
    assert form is not None  # it was wanted
    return form


def _cast(make: _Inputs, number: torch.dtype) -> Fp8Findings:
    x, wide_stack = make.x(), make.x(2, 3, make.dim, make.dim)
    yield from _compared(make, number, lambda of, slot, wanted: (of.cast(x, slot, wanted), None), 3.0)
    stack = wide_stack[:, 1]  # of a larger buffer, as the blocks' weights are
    thirds = make.x(make.rows, 3 * make.dim)

    def summed(of: ModuleType, slot: ScaleSlot, wanted: WantedForms) -> tuple[Fp8Forms, Tensor]:
        parts = make.parts(of.cast_parts(make.rows), make.dim)
        return of.cast(thirds, slot, wanted, parts), parts.sum(0)

    yield from ((f"summed: {name}", pair) for name, pair in _compared(make, number, summed, 3.0))
    found = _compared(make, number, lambda of, slot, wanted: (of.cast(stack, slot, wanted), None), 3.0, layers=2)
    yield from ((f"stack: {name}", pair) for name, pair in found)


def _add_norm_cast(make: _Inputs, number: torch.dtype) -> Fp8Findings:
    x, branch, bias, weight, shift = make.x(scale=2), make.x(), make.x(make.dim), make.v(), make.v()

    def run(of: ModuleType, slot: ScaleSlot, wanted: WantedForms) -> tuple[Fp8Forms, Tensor]:
        stream, forms, mean, rstd = of.add_norm_cast(x, branch, bias, weight, shift, 1e-5, slot, wanted)
        return forms, torch.cat([stream.float().sum(0), mean, rstd])

    yield from _compared(make, number, run, 4.0)


def _gelu_cast(make: _Inputs, number: torch.dtype) -> Fp8Findings:
    width = 4 * make.dim
    before, gradient, bias = make.x(make.rows, width, scale=3), make.x(make.rows, width), make.x(width)

    def backward(of: ModuleType, slot: ScaleSlot, wanted: WantedForms) -> tuple[Fp8Forms, Tensor]:
        parts = make.parts(of.cast_parts(make.rows), width)
        return of.gelu_backward_cast(gradient, before, bias, parts, slot, wanted), parts.sum(0)

    found = _compared(make, number, lambda of, slot, wanted: (of.gelu_cast(before, bias, slot, wanted), None), 8.0)
    yield from ((f"forward: {name}", pair) for name, pair in found)
    yield from ((f"backward: {name}", pair) for name, pair in _compared(make, number, backward, 3.0))


def _cross_entropy_cast(make: _Inputs, number: torch.dtype) -> Fp8Findings:
    words = 16_640  # more than a tile, and not a multiple of one
    logits, targets = make.x(64, words), make.ids(64, below=words)

    def run(of: ModuleType, slot: ScaleSlot, wanted: WantedForms) -> tuple[Fp8Forms, Tensor]:
        losses, forms = of.cross_entropy_cast(logits.clone(), targets, 1.0, wanted)
        slot.peak[:, 0] = 1.0
        return forms, losses

    yield from _compared(make, number, run, 1.0)


def _products(make: _Inputs) -> dict[str, Finding]:
    """cuBLAS's matmul of fp8 matrices against one of float32: the same bytes, the same scales, rounded to dtype."""
    from . import kernels

    found = {}
    for label, number, exact in (("forward", E4M3, False), ("gradient", E4M3, True), ("gradient", E5M2, True)):
        slots = _slot(make, number, 4.0), _slot(make, E4M3, 4.0)
        forms = [
            reference.cast(make.x(), slot, WantedForms(kind)) for slot, kind in zip(slots, (number, E4M3), strict=True)
        ]
        bias = None if exact else make.x(make.rows)
        pair = [
            of.scaled_product(forms[0].rows, slots[0], forms[1].rows, slots[1], make.dtype, exact=exact, bias=bias)
            for of in (kernels, reference)
        ]
        limit = STORED[make.dtype] if exact else FAST
        found[f"scaled_product {label} {str(number)[13:]}"] = relative_error(*pair), limit
    return found


_FP8_CHECKS = {
    "cast": _cast,
    "add_norm_cast": _add_norm_cast,
    "gelu_cast": _gelu_cast,
    "cross_entropy_cast": _cross_entropy_cast,
}

_CHECKS = {
    "add_norm": _add_norm,
    "norm_backward": _norm_backward,
    "gelu": _gelu,
    "cross_entropy": _cross_entropy,
    "embedding": _embedding,
    "adamw": _adamw,
    "column_sums": _sums,
}
