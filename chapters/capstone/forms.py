"""The same step in other forms, for a compiler to make better kernels of: what a reader writes in a few lines of torch.

Each computes what its neighbour in `capstone.gpt` does, in fewer instructions or by other kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """GELU's tanh form with one exponential, since (1 + tanh u)/2 is the logistic function of 2 u.

    >>> import torch
    >>> from chapters.capstone.forms import gelu_by_sigmoid
    >>> gelu_by_sigmoid(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1588,  0.0000,  0.8412])
    """
    wide = x.float()
    return (wide * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))).to(x.dtype)


class LeanHead(torch.autograd.Function):
    """`capstone.gpt.TiedHead` with fewer instructions a logit.

    The maximum and the sum are written as Inductor knows them, so that it finds both in one pass. The gradient of a row
    is one exponential; its target's place is written once more after the row, instead of looked for in it.

    >>> import torch
    >>> from chapters.capstone.forms import LeanHead
    >>> LeanHead.apply(torch.zeros(8, 4), torch.ones(10, 4), torch.arange(8), 2)
    tensor(2.3026)
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, targets: Tensor, chunks: int) -> Tensor:
        losses, to_hidden, to_table = [], [], torch.zeros_like(table, dtype=torch.float32)
        for rows, wanted in zip(hidden.chunk(chunks), targets[:, None].chunk(chunks), strict=True):
            logits = (rows @ table.T).float()
            top = logits.amax(1, keepdim=True)
            total = (logits - top).exp().sum(1, keepdim=True).log() + top
            own = logits.gather(1, wanted)
            losses.append((total - own)[:, 0])
            gradient = (logits - (total + math.log(len(hidden)))).exp().to(hidden.dtype)
            gradient.scatter_(1, wanted, (((own - total).exp() - 1) / len(hidden)).to(hidden.dtype))
            to_hidden.append(gradient @ table)
            to_table += (gradient.T @ rows).float()
        ctx.save_for_backward(torch.cat(to_hidden), to_table.to(table.dtype))
        return torch.cat(losses).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_hidden, to_table = ctx.saved_tensors
        return (to_hidden * gradient).to(to_hidden.dtype), (to_table * gradient).to(to_table.dtype), None, None


OFFSET = 1 / 64
"""What `folded` adds to a normed row: larger, it costs bits of the row; smaller, bits of the bias's gradient."""
FOLDED = ("norm1", "attention.qkv"), ("norm2", "mlp.up")
"""A block's norms, each with the matmul that reads it."""


def folded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """MiniGPT's weights by name, its blocks' norms and the biases after them made part of the matrices that follow.

    A normed row sums to 0: one number more in all of a matrix's row changes nothing. With `OFFSET` added to the normed
    row that number counts, and is chosen to give the bias. The norms' own weights are 1, and autograd takes the
    gradients of what was folded from the matrix's, where they were sums over all tokens.

    >>> from chapters.capstone.forms import folded
    >>> from chapters.shared import subjects
    >>> changed = folded(dict(subjects.capstone_model(640).named_parameters()))
    >>> float(changed["blocks.0.norm2.weight"].mean()), float(changed["blocks.0.mlp.up.bias"].abs().sum())
    (1.0, 0.0)
    """
    changed = dict(weights)
    blocks = [name.removesuffix(".norm1.weight") for name in weights if name.endswith(".norm1.weight")]
    for norm, linear in [(f"{block}.{norm}", f"{block}.{linear}") for block in blocks for norm, linear in FOLDED]:
        gain, shift = weights[f"{norm}.weight"], weights[f"{norm}.bias"]
        matrix, bias = weights[f"{linear}.weight"], weights[f"{linear}.bias"]
        scaled, constant = matrix.float() * gain, (matrix.float() * shift).sum(1) + bias
        added = (constant / OFFSET - scaled.sum(1)) / matrix.shape[1]
        changed[f"{linear}.weight"] = (scaled + added[:, None]).to(matrix.dtype)
        changed[f"{linear}.bias"] = torch.zeros_like(bias)
        changed[f"{norm}.weight"], changed[f"{norm}.bias"] = torch.ones_like(gain), torch.full_like(shift, OFFSET)
    return changed


def flexible_attention(length: int, device: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """FlexAttention with a causal mask: Inductor's own Triton template, forward and backward."""

    def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    return functools.partial(flex_attention, block_mask=create_block_mask(causal, None, None, length, length, device))
