"""The same functions as `kernels`, in plain torch: what each kernel is judged by, and what the schedule runs on a CPU.

Shapes and meanings are in the docstrings there. Sums are kept in float32, or float64 where the inputs are float64.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .forms import LIMIT, Fp8Forms, ScaleSlot, WantedForms

NORM_PARTS = LINEAR_PARTS = 1


def wide(x: Tensor) -> Tensor:
    """x in the dtype of sums: float64 stays, all others become float32."""
    return x if x.dtype == torch.float64 else x.float()


def add_norm(
    x: Tensor, branch: Tensor | None, bias: Tensor | None, weight: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    stream = x if branch is None or bias is None else (wide(x) + wide(branch) + wide(bias)).to(x.dtype)
    centred = wide(stream) - wide(stream).mean(1, keepdim=True)
    rstd = (centred.square().mean(1, keepdim=True) + eps).rsqrt()
    normed = (centred * rstd * wide(weight) + wide(shift)).to(x.dtype)
    return stream, normed, wide(stream).mean(1), rstd[:, 0]


def norm_backward(
    gradient: Tensor, stream: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor, passed: Tensor | None, parts: Tensor
) -> Tensor:
    normed = (wide(stream) - mean[:, None]) * rstd[:, None]
    direct = wide(gradient) * wide(weight)
    along = (normed * direct).mean(1, keepdim=True)
    out = (direct - normed * along - direct.mean(1, keepdim=True)) * rstd[:, None]
    if passed is not None:
        out = out + wide(passed)
    _leave(parts, torch.cat([out.sum(0), (wide(gradient) * normed).sum(0), wide(gradient).sum(0)]))
    return out.to(stream.dtype)


def gelu(before: Tensor, bias: Tensor) -> Tensor:
    return _gelu(before, bias).to(before.dtype)


def gelu_backward(gradient: Tensor, before: Tensor, bias: Tensor, parts: Tensor) -> Tensor:
    out = _gelu_backward(gradient, before, bias, parts)
    return out.to(gradient.dtype)


def _gelu(before: Tensor, bias: Tensor) -> Tensor:
    """In float64 and then rounded: below x = -5, 1 + tanh is nothing but rounding in float32, where the kernel's one
    exponential is exact; and fp8 with its scale makes such small numbers visible."""
    after = F.gelu((wide(before) + wide(bias)).double(), approximate="tanh")
    return after.to(wide(before).dtype)


def _gelu_backward(gradient: Tensor, before: Tensor, bias: Tensor, parts: Tensor) -> Tensor:
    x, c = (wide(before) + wide(bias)).double(), 2 * math.sqrt(2 / math.pi)
    share = torch.sigmoid(c * (x + 0.044715 * x**3))  # not (1 + tanh) / 2, which is 0 below x = -7.2: fp8 keeps a sign
    slope = share + x * share * (1 - share) * c * (1 + 3 * 0.044715 * x * x)
    out = wide(gradient) * slope.to(wide(before).dtype)
    _leave(parts, out.sum(0))
    return out


def cross_entropy_(logits: Tensor, targets: Tensor, scale: float) -> Tensor:
    log_share = wide(logits).log_softmax(1)
    gradient = log_share.exp()
    rows = torch.arange(len(targets), device=targets.device)
    gradient[rows, targets] -= 1
    logits.copy_(gradient * scale)
    return -log_share[rows, targets]


def cross_entropy_cast(logits: Tensor, targets: Tensor, scale: float, wanted: WantedForms) -> tuple[Tensor, Fp8Forms]:
    gradient = wide(logits).clone()
    losses = cross_entropy_(gradient, targets, 1.0)
    rows = (gradient * LIMIT[wanted.dtype]).to(wanted.dtype)
    plain = logits.copy_(gradient * scale) if wanted.plain else None
    return losses, Fp8Forms(rows if wanted.rows else None, rows.t().contiguous() if wanted.turned else None, plain)


def embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    length = tokens.shape[1]
    return (wide(table[tokens]) + wide(positions[:length])).to(table.dtype).flatten(0, 1)


def embed_backward_(gradient: Tensor, tokens: Tensor, out: Tensor) -> None:
    out.index_add_(0, tokens.flatten(), gradient.to(out.dtype))


def adamw_(
    master: Tensor, low: Tensor | None, gradient: Tensor, first: Tensor, second: Tensor, count: Tensor, rate: Tensor,
    betas: tuple[float, float], eps: float, decay: float,
) -> None:  # fmt: skip
    beta1, beta2 = betas
    gradient = gradient.to(master.dtype)
    master.mul_(1 - rate * decay)
    first.lerp_(gradient, 1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    scale = second.sqrt() / (1 - beta2**count).sqrt() + eps
    master.sub_(rate / (1 - beta1**count) * first / scale)
    if low is not None:
        low.copy_(master)


def column_sums(parts: Tensor, out: Tensor) -> None:
    torch.sum(parts, 0, out=out)


def leave_sums(x: Tensor, parts: Tensor) -> None:
    _leave(parts, wide(x).sum(0))


def transpose(x: Tensor, out: Tensor) -> None:
    out.copy_(x.transpose(1, 2))


def cast(x: Tensor, slot: ScaleSlot, wanted: WantedForms, parts: Tensor | None = None) -> Fp8Forms:
    if parts is not None:
        leave_sums(x[:, : parts.shape[1]], parts)
    return _forms(wide(x), x.dtype, slot, wanted)


def gelu_cast(before: Tensor, bias: Tensor, slot: ScaleSlot, wanted: WantedForms) -> Fp8Forms:
    return _forms(_gelu(before, bias), before.dtype, slot, wanted)


def gelu_backward_cast(
    gradient: Tensor, before: Tensor, bias: Tensor, parts: Tensor, slot: ScaleSlot, wanted: WantedForms
) -> Fp8Forms:
    return _forms(_gelu_backward(gradient, before, bias, parts), gradient.dtype, slot, wanted)


def add_norm_cast(
    x: Tensor, branch: Tensor | None, bias: Tensor | None, weight: Tensor, shift: Tensor, eps: float,
    slot: ScaleSlot, wanted: WantedForms,
) -> tuple[Tensor, Fp8Forms, Tensor, Tensor]:  # fmt: skip
    stream = x if branch is None else add_norm(x, branch, bias, weight, shift, eps)[0]
    _, normed, mean, rstd = add_norm(wide(stream), None, None, weight, shift, eps)
    return stream, _forms(normed, x.dtype, slot, wanted), mean, rstd


def cast_parts(rows: int) -> int:
    return 1


def scaled_product(
    a: Tensor, a_slot: ScaleSlot, b: Tensor, b_slot: ScaleSlot, dtype: torch.dtype,
    *, exact: bool, bias: Tensor | None = None, added: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    product = (a.float() * a_slot.inverse[0, 0]) @ (b.float() * b_slot.inverse[0, 0]).t()
    for each in (bias, added):
        product = product if each is None else product + each.float()
    product = product.to(dtype)
    return product if out is None else out.copy_(product)


def _forms(x: Tensor, plain: torch.dtype, slot: ScaleSlot, wanted: WantedForms) -> Fp8Forms:
    """x, [rows, columns] or a stack of them, in wide numbers: quantised, turned, and rounded to `plain`."""
    tail = (1,) * (x.ndim - 2)
    scale = slot.scale[:, 0].view(-1, *tail, 1) if x.ndim == 3 else slot.scale[0, 0]
    peak = x.abs().amax((-2, -1)).view(-1, 1).to(slot.peak.dtype)
    slot.peak[:, :1] = torch.maximum(slot.peak[:, :1], peak)
    limit = LIMIT[wanted.dtype]
    rows = (x.float() * scale).clamp(-limit, limit).to(wanted.dtype)
    turned = rows.transpose(-2, -1).contiguous() if wanted.turned else None
    return Fp8Forms(rows if wanted.rows else None, turned, x.to(plain) if wanted.plain else None)


def _leave(parts: Tensor, sums: Tensor) -> None:
    """A kernel leaves one row a program; here the first row is the whole sum."""
    parts.zero_()
    parts[0] = sums
