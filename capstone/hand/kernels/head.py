"""Cross entropy where the logits lie: they become their own gradient, and no second [rows, vocabulary] ever exists.

A row is visited once by one program, in two passes. The first keeps, for each lane, a running maximum and the sum of
exponentials relative to it (Milakov and Gimelshein 2018); the second writes (softmax - one hot) * scale over the row.

A program is as wide as a block can be, so that an H200 works on two rows for each of its multiprocessors and no more:
at GPT-2's vocabulary 26 MB, which its L2 cache of 60 MB can hold. The second pass finds the row there, and memory is
read once. Then instructions count, 1.6 billion times each: exponentials are of two, a number needs one multiplication
and addition on its way to one, and the target's own place is corrected after the row, instead of looked for in it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES, EACH, WARPS = 2048, 8, 32
LOG2_E, LN_2 = tl.constexpr(math.log2(math.e)), tl.constexpr(math.log(2))


@triton.jit
def further(top, mass, z):
    """Each lane's maximum and mass, with its numbers of one tile more; in powers of two."""
    z = z.to(tl.float32) * LOG2_E
    higher = tl.maximum(top, tl.max(z, 1))
    return higher, mass * tl.exp2(top - higher) + tl.sum(tl.exp2(z - higher[:, None]), 1)


@triton.jit
def share(z, shift):
    """exp2(z log2(e) - shift), in z's own format."""
    return tl.exp2(z.to(tl.float32) * LOG2_E - shift).to(z.dtype)


@triton.jit
def mass_and_loss(LOGITS, target, at, VOCABULARY: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr):
    """The first visit of a row: the logarithm to base 2 of its sum of exponentials, and its loss in nats."""
    whole: tl.constexpr = VOCABULARY // (LANES * EACH) * (LANES * EACH)
    inside = whole + at < VOCABULARY  # of the last tile, which the others do not ask
    top = tl.full([LANES], -1e30, tl.float32)
    mass = tl.zeros([LANES], tl.float32)
    for first in tl.range(0, whole, LANES * EACH):
        top, mass = further(top, mass, tl.load(LOGITS + first + at, eviction_policy="evict_last"))
    rest = tl.load(LOGITS + whole + at, mask=inside, other=-float("inf"), eviction_policy="evict_last")
    top, mass = further(top, mass, rest)
    highest = tl.max(top, 0)
    log2_mass = highest + tl.log2(tl.sum(mass * tl.exp2(top - highest), 0))
    own = tl.load(LOGITS + target).to(tl.float32) * LOG2_E
    return log2_mass, (log2_mass - own) * LN_2


@triton.jit
def cross_entropy_kernel(
    LOGITS, TARGETS, LOSSES, scale, log2_scale, VOCABULARY: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * VOCABULARY
    at = tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    whole: tl.constexpr = VOCABULARY // (LANES * EACH) * (LANES * EACH)
    inside = whole + at < VOCABULARY  # of the last tile, which the others do not ask
    target = tl.load(TARGETS + row)
    log2_mass, loss = mass_and_loss(LOGITS, target, at, VOCABULARY, LANES, EACH)
    tl.store(LOSSES + row, loss)
    tl.debug_barrier()  # one lane reads the target's logit, another is about to write over it
    shift = log2_mass - log2_scale
    for first in tl.range(0, whole, LANES * EACH):
        gradient = share(tl.load(LOGITS + first + at, eviction_policy="evict_first"), shift)
        tl.store(LOGITS + first + at, gradient, eviction_policy="evict_first")
    last = share(tl.load(LOGITS + whole + at, mask=inside, other=0.0, eviction_policy="evict_first"), shift)
    tl.store(LOGITS + whole + at, last, mask=inside, eviction_policy="evict_first")
    tl.debug_barrier()  # the target's place has been written by whoever had it
    tl.store(LOGITS + target, ((tl.exp2(-loss * LOG2_E) - 1.0) * scale).to(LOGITS.dtype.element_ty))


def cross_entropy_(logits: Tensor, targets: Tensor, scale: float) -> Tensor:
    """Each row's loss in nats, fp32 [rows]; logits [rows, vocabulary] become (softmax - one hot) * scale.

    targets: int64 [rows], each an id of the vocabulary (not checked: that would wait for the device). scale: above 0.
    ValueError for other shapes and scales.
    """
    rows, vocabulary = logits.shape
    if targets.shape != (rows,) or not logits.is_contiguous():
        raise ValueError(f"targets are {list(targets.shape)}; they must be [{rows}], and the logits contiguous")
    if not scale > 0:
        raise ValueError(f"scale is {scale}; its logarithm is needed, so it must be above 0")
    losses = logits.new_empty(rows, dtype=torch.float32)
    cross_entropy_kernel[(rows,)](
        logits, targets, losses, scale, math.log2(scale),
        VOCABULARY=vocabulary, LANES=LANES, EACH=EACH, num_warps=WARPS,
    )  # fmt: skip
    return losses
