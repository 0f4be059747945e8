"""Pieces of MiniGPT that a pattern needs in another form: attention that is cut by heads, and a pipeline's stage."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import Attention, MiniGPT


class HeadwiseAttention(nn.Module):
    """The same attention with the rows of qkv in the order of the heads, so that a slice of them is whole heads.

    In `Attention` they are all queries, all keys, all values: half of those rows is no attention.
    """

    def __init__(self, fused: Attention) -> None:
        super().__init__()
        self.width = fused.out.in_features // fused.heads
        self.qkv, self.out = fused.qkv, fused.out
        for name, rows in list(self.qkv.named_parameters()):
            setattr(self.qkv, name, nn.Parameter(by_head(rows.detach(), fused.heads)))

    def forward(self, x: Tensor) -> Tensor:
        # The shape is read behind the projection: before it, x may be a slice of the sequence.
        qkv = self.qkv(x)
        batch, length, rows = qkv.shape
        q, k, v = qkv.view(batch, length, rows // (3 * self.width), 3, self.width).permute(3, 0, 2, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, rows // 3))


def by_head(rows: Tensor, heads: int) -> Tensor:
    """Rows of qkv from the order (q k v, head) to (head, q k v).

    >>> import torch
    >>> from mini_model.parallel.parts import by_head
    >>> q, k, v = [10, 11], [20, 21], [30, 31]
    >>> by_head(torch.tensor([*q, *k, *v]), heads=2)
    tensor([10, 20, 30, 11, 21, 31])
    """
    return rows.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2).contiguous()


def by_kind(rows: Tensor, heads: int) -> Tensor:
    """Rows of qkv from the order (head, q k v) back to (q k v, head)."""
    return rows.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2).contiguous()


class Stage(nn.Module):
    """Consecutive blocks of a MiniGPT, with the embeddings if it is the first stage, norm and head if the last.

    int64 [batch, length] into the first, [batch, length, dim] between two, logits out of the last. Its parameters
    are the model's own, under the same names.
    """

    def __init__(self, model: MiniGPT, index: int, count: int) -> None:
        super().__init__()
        self.index, self.first, self.last = index, index == 0, index == count - 1
        layers = model.config.layers // count
        numbers = range(index * layers, (index + 1) * layers)
        self.blocks = nn.ModuleDict({str(number): model.blocks[number] for number in numbers})
        if self.first:
            self.token_embedding, self.position_embedding = model.token_embedding, model.position_embedding
        if self.last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            positions = torch.arange(x.shape[1], device=x.device)
            x = self.token_embedding(x) + self.position_embedding(positions)
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.last else x
