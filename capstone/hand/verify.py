"""Every kernel beside its reference, on the device and in the run that is about to trust it.

A compiler can be wrong without an error: Triton 3.6's ptxas took wrong registers for single bytes of a packed fp8
conversion, and gradients were 36 % off. What has not been compared here is not used in a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from . import reference

Finding = tuple[float, float]
"""What was found, and the limit that it must not pass."""

STORED = {torch.bfloat16: 1e-3, torch.float32: 1e-5}
"""Relative error of what is stored: both sides round a float32 result once, and seldom differently."""
SUMMED = 2e-5
"""Relative error of float32 sums over thousands of rows, in another order."""


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


def _both(names: str, function: Callable[..., tuple[Tensor, ...]]) -> Outputs:
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

    def run(of, passed):
        parts = make.parts(of.NORM_PARTS, 3 * make.dim)
        return of.norm_backward(gradient, stream, mean, rstd, weight, passed, parts), parts.sum(0)

    yield from _both("gradient sums", lambda of: run(of, passed))
    yield from _both("last:gradient last:sums", lambda of: run(of, None))


def _gelu(make: _Inputs) -> Outputs:
    width = 4 * make.dim
    before, gradient, bias = make.x(make.rows, width, scale=3), make.x(make.rows, width), make.x(width)

    def backward(of):
        parts = make.parts(of.LINEAR_PARTS, width)
        return of.gelu_backward(gradient, before, bias, parts), parts.sum(0)

    yield from _both("after", lambda of: (of.gelu(before, bias),))
    yield from _both("gradient sums", backward)


def _pack(make: _Inputs) -> Outputs:
    thirds = make.x(), make.x(), make.x()

    def run(of):
        parts = make.parts(of.LINEAR_PARTS, 3 * make.dim)
        return of.pack(*thirds, parts), parts.sum(0)

    yield from _both("packed sums", run)


def _cross_entropy(make: _Inputs) -> Outputs:
    rows = min(make.rows, 256)
    logits, targets = make.x(rows, make.vocabulary, scale=4), make.ids(rows, below=make.vocabulary)

    def run(of):
        own = logits.clone()
        losses = of.cross_entropy_(own, targets, 1.0)
        return own, losses

    yield from _both("gradient losses", run)


def _embedding(make: _Inputs) -> Outputs:
    words, length = 97, make.rows // 4  # few words, so that many rows meet in one
    tokens, gradient = make.ids(4, length, below=words), make.x()
    table, positions, start = make.x(words, make.dim), make.x(length, make.dim), make.v(words, make.dim)

    def backward(of):
        out = start.clone()
        of.embed_backward_(gradient, tokens, out)
        return (out,)

    yield from _both("embedded", lambda of: (of.embed(tokens, table, positions),))
    yield from _both("scattered", backward)


def _adamw(make: _Inputs) -> Outputs:
    n = 3001
    master, first, second, gradient = make.v(n), make.v(n), make.v(n).square(), make.x(n)
    count, rate = torch.full((), 3.0, device=make.device), torch.full((), 1e-2, device=make.device)

    def run(of):
        own = master.clone(), first.clone(), second.clone()
        low = None if make.dtype == torch.float32 else master.to(make.dtype)
        of.adamw_(own[0], low, gradient, own[1], own[2], count, rate, (0.9, 0.95), 1e-8, 0.1)
        return *own, own[0] if low is None else low

    yield from _both("master first second low", run)


def _sums(make: _Inputs) -> Outputs:
    parts, stack = make.v(50, 3 * make.dim), make.x(2, make.dim, 128)

    def sums(of):
        out = make.v(3 * make.dim)
        of.column_sums(parts, out)
        return (out,)

    def turned(of):
        out = stack.new_empty(2, 128, make.dim)
        of.transpose(stack, out)
        return (out,)

    yield from _both("sums", sums)
    yield from _both("turned", turned)


_CHECKS = {
    "add_norm": _add_norm,
    "norm_backward": _norm_backward,
    "gelu": _gelu,
    "pack": _pack,
    "cross_entropy": _cross_entropy,
    "embedding": _embedding,
    "adamw": _adamw,
    "column_sums": _sums,
}
