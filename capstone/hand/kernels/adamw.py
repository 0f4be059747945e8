"""AdamW (Loshchilov and Hutter 2019) over a flat buffer: all tensors of one kind in one launch, and their bf16 copy."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 1024, 4


@triton.jit
def adamw_kernel(
    MASTER, LOW, GRADIENT, FIRST, SECOND, COUNT, RATE, n, beta1, beta2, log2_beta1, log2_beta2, eps, decay,
    COPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    count, rate = tl.load(COUNT), tl.load(RATE)
    bias1, bias2 = 1.0 - tl.exp2(count * log2_beta1), 1.0 - tl.exp2(count * log2_beta2)
    g = tl.load(GRADIENT + at, mask=inside, other=0.0).to(tl.float32)
    p = tl.load(MASTER + at, mask=inside, other=0.0) * (1.0 - rate * decay)
    m = tl.load(FIRST + at, mask=inside, other=0.0)
    v = tl.load(SECOND + at, mask=inside, other=0.0)
    m += (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    p -= rate / bias1 * m / (tl.sqrt(v) / tl.sqrt(bias2) + eps)
    tl.store(MASTER + at, p, mask=inside)
    tl.store(FIRST + at, m, mask=inside)
    tl.store(SECOND + at, v, mask=inside)
    if COPY:
        tl.store(LOW + at, p.to(LOW.dtype.element_ty), mask=inside)


def adamw_(
    master: Tensor, low: Tensor | None, gradient: Tensor, first: Tensor, second: Tensor, count: Tensor, rate: Tensor,
    betas: tuple[float, float], eps: float, decay: float,
) -> None:  # fmt: skip
    """One update in place, as torch.optim.AdamW's. All tensors [n]; master and both moments are fp32.

    low: what the matmuls read, master's copy in their dtype (None: they read master). count (this step's number, from
    1) and rate are 0-d fp32 tensors, so that a CUDA graph sees them change.
    """
    beta1, beta2 = betas
    n = master.numel()
    adamw_kernel[(triton.cdiv(n, BLOCK),)](
        master, master if low is None else low, gradient, first, second, count, rate, n,
        beta1, beta2, math.log2(beta1), math.log2(beta2), eps, decay,
        COPY=low is not None, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
