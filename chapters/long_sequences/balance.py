"""Who computes how many pairs: masks, orders of positions on ranks, and the work that each rank gets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compile_lab._torch.context_parallel import head_tail, per_document, ptrr
from compile_lab.doors import check_whole

Mask = Callable[[Tensor, Tensor], Tensor]
"""(positions of queries, positions of keys), that broadcast: bool, where a query may look at a key."""

BLOCK = 64
"""Positions that PTRR keeps together here."""


def document_of(lengths: Sequence[int]) -> Tensor:
    """The number of the document that each position is of, int [sum of lengths]."""
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def causal(query: Tensor, key: Tensor, documents: Tensor | None = None) -> Tensor:
    """A position looks at itself and at what came before; with documents, in its own document."""
    allowed = query >= key
    return allowed if documents is None else allowed & (documents[query] == documents[key])


def work(lengths: Sequence[int]) -> Tensor:
    """How many keys each position looks at, int [sum of lengths]: 1, 2, 3, … anew in each document."""
    return torch.cat([torch.arange(1, length + 1) for length in lengths])


# ---- orders: int [ranks, positions a rank]
def in_order(length: int, size: int) -> Tensor:
    """Rank after rank, as they come."""
    check_whole("size", size, 1)
    if length % size:
        raise ValueError(f"length {length} is no multiple of {size} ranks: pad the sequence")
    return torch.arange(length).view(size, -1)


def head_tail_by_document(lengths: Sequence[int], size: int) -> Tensor:
    """Of each document, every rank gets an early chunk and the late one that makes up for it.

    Raises ValueError for a document that is no multiple of two chunks a rank.
    """
    if wrong := [length for length in lengths if length % (2 * size)]:
        raise ValueError(f"a document of {wrong[0]} positions is no multiple of {2 * size} chunks: pad the document")
    ends = torch.tensor(lengths).cumsum(0)
    chunks = [torch.arange(end - length, end).view(2 * size, -1) for length, end in zip(lengths, ends, strict=True)]
    return torch.stack([torch.cat([part for c in chunks for part in (c[r], c[-1 - r])]) for r in range(size)])


ORDERS: dict[str, Callable[[Sequence[int], int], Tensor]] = {
    "in order": lambda lengths, size: in_order(sum(lengths), size),
    "head-tail": lambda lengths, size: head_tail(sum(lengths), size),
    "per document (torch's)": per_document,
    "per document, by rank": head_tail_by_document,
    "PTRR": lambda lengths, size: ptrr(document_of(lengths), size, BLOCK),
}
"""Orders by name. The second, third and last are torch's own balancers."""


@dataclass(frozen=True)
class Balance:
    """The pairs of each rank under an order."""

    order: str
    pairs: tuple[int, ...]

    @property
    def slowest(self) -> float:
        """The most that a rank computes, over their mean: 1 where all compute the same."""
        return max(self.pairs) * len(self.pairs) / sum(self.pairs)

    @property
    def idle(self) -> float:
        """The share of all ranks' time that is spent waiting for the slowest, if time goes as pairs."""
        return 1 - 1 / self.slowest


def balance(order: str, lengths: Sequence[int], size: int) -> Balance:
    """The pairs of each rank for documents of these lengths, each causal; one length is one causal sequence."""
    places = ORDERS[order](lengths, size)
    return Balance(order, tuple(work(lengths)[places].sum(1).tolist()))


def owners(order: str, lengths: Sequence[int], size: int) -> Tensor:
    """The rank that holds each position, int [sum of lengths]."""
    places = ORDERS[order](lengths, size)
    found = torch.empty(sum(lengths), dtype=torch.long)
    found[places.flatten().long()] = torch.arange(size).repeat_interleave(places.shape[1])
    return found
