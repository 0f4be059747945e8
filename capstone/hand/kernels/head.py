"""Cross entropy where the logits lie: they become their own gradient, and no second [rows, vocabulary] ever exists.

A row is visited once by one program, in two passes. The first keeps, for each lane, a running maximum and the sum of
exponentials relative to it (Milakov and Gimelshein 2018); the second writes (softmax - one hot) * scale over the row.

A program is as wide as a block can be, so that an H200 works on two rows for each of its multiprocessors and no more:
at GPT-2's vocabulary 26 MB, which its L2 cache of 60 MB can hold. The second pass should find the row there, and memory
be read once. A lane keeps one maximum for EACH of its numbers, as a new maximum costs an exponential too.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES, EACH, WARPS = 512, 8, 16


@triton.jit
def cross_entropy_kernel(
    LOGITS, TARGETS, LOSSES, scale, VOCABULARY: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * VOCABULARY
    at = tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    top = tl.full([LANES], -1e30, tl.float32)
    mass = tl.zeros([LANES], tl.float32)
    for first in tl.range(0, VOCABULARY, LANES * EACH):
        inside = first + at < VOCABULARY
        z = tl.load(LOGITS + first + at, mask=inside, other=-float("inf"), eviction_policy="evict_last")
        z = z.to(tl.float32)
        higher = tl.maximum(top, tl.max(z, 1))
        mass = mass * tl.exp(top - higher) + tl.sum(tl.exp(z - higher[:, None]), 1)
        top = higher
    highest = tl.max(top, 0)
    log_mass = highest + tl.log(tl.sum(mass * tl.exp(top - highest), 0))
    target = tl.load(TARGETS + row)
    tl.store(LOSSES + row, log_mass - tl.load(LOGITS + target).to(tl.float32))
    tl.debug_barrier()  # one lane reads the target's logit, another is about to write over it
    for first in tl.range(0, VOCABULARY, LANES * EACH):
        inside = first + at < VOCABULARY
        z = tl.load(LOGITS + first + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        gradient = (tl.exp(z - log_mass) - tl.where(first + at == target, 1.0, 0.0)) * scale
        gradient = gradient.to(LOGITS.dtype.element_ty)
        tl.store(LOGITS + first + at, gradient, mask=inside, eviction_policy="evict_first")


def cross_entropy_(logits: Tensor, targets: Tensor, scale: float) -> Tensor:
    """Each row's loss in nats, fp32 [rows]; logits [rows, vocabulary] become (softmax - one hot) * scale.

    targets: int64 [rows], each an id of the vocabulary (not checked: that would wait for the device). ValueError for
    other shapes.
    """
    rows, vocabulary = logits.shape
    if targets.shape != (rows,) or not logits.is_contiguous():
        raise ValueError(f"targets are {list(targets.shape)}; they must be [{rows}], and the logits contiguous")
    losses = logits.new_empty(rows, dtype=torch.float32)
    cross_entropy_kernel[(rows,)](
        logits, targets, losses, scale, VOCABULARY=vocabulary, LANES=LANES, EACH=EACH, num_warps=WARPS
    )
    return losses
