"""The same step in other forms, for a compiler to make better kernels of: what a reader writes in a few lines of torch.

Each computes what its neighbour in `capstone.gpt` does, in fewer instructions or by other kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
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


def flexible_attention(length: int, device: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """FlexAttention with a causal mask: Inductor's own Triton template, forward and backward."""

    def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    return functools.partial(flex_attention, block_mask=create_block_mask(causal, None, None, length, length, device))
