"""Cross entropy where the logits lie: they become their own gradient, and no second [rows, vocabulary] ever exists.

A row is visited once by one program, in two passes. The first keeps, for each lane, a running maximum and the sum of
exponentials relative to it (Milakov and Gimelshein 2018); the second writes (softmax - one hot) * scale over the row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 2048, 4


@triton.jit
def cross_entropy_kernel(LOGITS, TARGETS, LOSSES, scale, VOCABULARY: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * VOCABULARY
    lanes = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -1e30, tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)
    for first in tl.range(0, VOCABULARY, BLOCK):
        z = tl.load(LOGITS + first + lanes, mask=first + lanes < VOCABULARY, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, z)
        mass = mass * tl.exp(top - higher) + tl.exp(z - higher)
        top = higher
    highest = tl.max(top, 0)
    log_mass = highest + tl.log(tl.sum(mass * tl.exp(top - highest), 0))
    target = tl.load(TARGETS + row)
    tl.store(LOSSES + row, log_mass - tl.load(LOGITS + target).to(tl.float32))
    tl.debug_barrier()  # one lane reads the target's logit, another is about to write over it
    for first in tl.range(0, VOCABULARY, BLOCK):
        inside = first + lanes < VOCABULARY
        z = tl.load(LOGITS + first + lanes, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.exp(z - log_mass) - tl.where(first + lanes == target, 1.0, 0.0)
        tl.store(LOGITS + first + lanes, (gradient * scale).to(LOGITS.dtype.element_ty), mask=inside)


def cross_entropy_(logits: Tensor, targets: Tensor, scale: float) -> Tensor:
    """Each row's loss in nats, fp32 [rows]; logits [rows, vocabulary] become (softmax - one hot) * scale.

    targets: int64 [rows], each an id of the vocabulary (not checked: that would wait for the device). ValueError for
    other shapes.
    """
    rows, vocabulary = logits.shape
    if targets.shape != (rows,) or not logits.is_contiguous():
        raise ValueError(f"targets are {list(targets.shape)}; they must be [{rows}], and the logits contiguous")
    losses = logits.new_empty(rows, dtype=torch.float32)
    cross_entropy_kernel[(rows,)](logits, targets, losses, scale, VOCABULARY=vocabulary, BLOCK=BLOCK, num_warps=WARPS)
    return losses
