"""Masks and scores of attention as functions, for `torch.nn.attention.flex_attention`.

A mask function says of one query and one key, by their places, whether the query may look; a score function gives a
pair's score another value. torch compiles both into its kernel, and a `BlockMask` tells the kernel which blocks of
128 × 128 pairs it can leave out. Called without `torch.compile`, it computes every score. On a CPU torch (2.13) has
the forward only: inputs that require a gradient are refused there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from .inputs import instance, positive, whole

Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(batch, head, query, key), each an index: True where the query may look at the key."""

Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(score, batch, head, query, key): the score that is used instead."""

BLOCK = 128
"""The queries, and the keys, of a block that a kernel visits or leaves out; torch's own default."""


def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A token looks at itself and at what came before."""
    return query >= key


def sliding_window(width: int) -> Mask:
    """A token looks at itself and the `width` - 1 tokens before it (Child et al. 2019; Beltagy et al. 2020).

    >>> import torch
    >>> from mini_model.flex import sliding_window
    >>> place = torch.arange(5)
    >>> sliding_window(2)(0, 0, place[:, None], place).int()
    tensor([[1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 0, 1, 1, 0],
            [0, 0, 0, 1, 1]], dtype=torch.int32)
    """
    whole("width", width)

    def window(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query - key < width)

    return window


def same_document(documents: Tensor) -> Mask:
    """A token looks at itself and at what came before in its own document.

    documents: int [batch, length], the number of the document that each token is of.

    >>> import torch
    >>> from mini_model.flex import same_document
    >>> place = torch.arange(4)
    >>> same_document(torch.tensor([[0, 0, 1, 1]]))(0, 0, place[:, None], place).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 0, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    if not isinstance(documents, Tensor) or documents.ndim != 2 or documents.is_floating_point():
        raise ValueError(
            "documents must be whole numbers [batch, length], one for each token; `documents_of` counts them"
        )

    def document(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (documents[batch, query] == documents[batch, key])

    return document


def documents_of(tokens: Tensor, end: int) -> Tensor:
    """The number of each token's document, int64 [batch, length], where `end` is the last token of a document.

    >>> import torch
    >>> from mini_model.flex import documents_of
    >>> documents_of(torch.tensor([[7, 8, 0, 9, 0, 5]]), end=0)
    tensor([[0, 0, 0, 1, 1, 2]])
    """
    ends = (instance("tokens", tokens, Tensor) == end).long()
    return ends.cumsum(1) - ends  # a document's end is still its own


def soft_cap(limit: float) -> Score:
    """Scores bent so that they stay between -limit and limit: limit · tanh(score / limit) (Gemma 2).

    >>> import torch
    >>> from mini_model.flex import soft_cap
    >>> soft_cap(30.0)(torch.tensor([1.0, 30.0, 300.0]), 0, 0, 0, 0).round().tolist()
    [1.0, 23.0, 30.0]
    """
    positive("limit", limit)

    def capped(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return limit * torch.tanh(score / limit)

    return capped


def block_mask(mask: Mask, length: int, batch: int | None = None, device: str = "cpu") -> BlockMask:
    """Which blocks of `length` × `length` pairs `mask` has anything in, and in which of them it is True throughout.

    `batch`: as many masks, for one that depends on the batch; else one for all. Asks for every pair at once: ten bytes
    a pair for a moment, uncompiled.
    """
    return create_block_mask(mask, batch, None, whole("length", length), length, device=device, BLOCK_SIZE=BLOCK)
