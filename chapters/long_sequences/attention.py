"""Attention over a sequence that lies on several ranks, by hand: all-gather of keys and values, and a ring.

Each rank holds the queries, keys and values of some positions. ``places`` is int [ranks, positions a rank]: which.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from compile_lab.devices import Program, counted, ranks

from .balance import Mask, causal, document_of, in_order

BATCH, HEADS, WIDTH = 1, 2, 16


# ---- one block, and how blocks come together
def block(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Attention to some of the keys, and the log-sum-exp of its scores, [..., queries, 1]: what `merge` needs.

    allowed: bool [queries, keys]. A query that may look at none of them gets zeros, and a log-sum-exp of -inf.
    """
    scores = _scores(query, key, allowed)
    lse = scores.logsumexp(-1, keepdim=True)
    return (scores - lse.nan_to_num(neginf=0)).exp() @ value, lse


def merge(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention to two sets of keys, from that to each: a mean, weighted by the sums of their exponentials."""
    both = torch.logaddexp(lse, other_lse)
    return out * (lse - both).exp() + other * (other_lse - both).exp(), both


def _scores(query: Tensor, key: Tensor, allowed: Tensor) -> Tensor:
    return (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~allowed, -math.inf)


# ---- what is sent
def passed(tensor: Tensor, by: int = 1) -> Tensor:
    """This rank's tensor goes so many ranks on, round the ring; what comes is another one's."""
    rank, size, got = dist.get_rank(), dist.get_world_size(), torch.empty_like(tensor)
    ops = [dist.P2POp(dist.isend, tensor.contiguous(), (rank + by) % size)]
    ops.append(dist.P2POp(dist.irecv, got, (rank - by) % size))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return got


class Hop(torch.autograd.Function):
    """`passed`, with a gradient, which goes the other way round."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return passed(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return passed(grad, -1)


class Gather(torch.autograd.Function):
    """Every rank's tensor, [ranks, ...]; the gradient is summed over ranks, and each gets its own part."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        every = tensor.new_empty(dist.get_world_size() * tensor.shape[0], *tensor.shape[1:])
        dist.all_gather_into_tensor(every, tensor.contiguous())
        return every.unflatten(0, (-1, tensor.shape[0]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        own = torch.empty_like(grad[0])
        dist.reduce_scatter_tensor(own, grad.flatten(0, 1))
        return own


# ---- four ways: each takes this rank's queries and its keys and values, [2, ...], and all places
Way = Callable[[Tensor, Tensor, Tensor, Mask], tuple[Tensor, list[Tensor]]]
"""(query, keys and values, places, mask): this rank's output, and the tensors that held keys and values."""


def gathered(query: Tensor, kv: Tensor, places: Tensor, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """All keys and values come to every rank; then it is plain attention."""
    every = Gather.apply(kv)
    key, value = every.movedim(0, -3).flatten(-3, -2)
    allowed = mask(places[dist.get_rank()][:, None], places.flatten()[None])
    return block(query, key, value, allowed)[0], [every, key]


def gathered_again(query: Tensor, kv: Tensor, places: Tensor, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """`gathered` in a checkpoint, which keeps its inputs alone: the backward gathers a second time."""
    out = checkpoint(lambda query, kv: gathered(query, kv, places, mask)[0], query, kv, use_reentrant=False)
    return out, [kv]


def ring(query: Tensor, kv: Tensor, places: Tensor, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """Keys and values go round; autograd writes the backward, and keeps every block for it."""
    rank, size, held = dist.get_rank(), dist.get_world_size(), [kv]
    out, lse = block(query, kv[0], kv[1], mask(places[rank][:, None], places[rank][None]))
    for step in range(1, size):
        held.append(Hop.apply(held[-1]))
        allowed = mask(places[rank][:, None], places[(rank - step) % size][None])
        out, lse = merge(out, lse, *block(query, held[-1][0], held[-1][1], allowed))
    return out, held


class Ring(torch.autograd.Function):
    """A ring that keeps this rank's keys and values alone. The backward sends all of them round again, with gradients.

    It needs no softmax of a block: with the log-sum-exp of all scores, a block's weights are exp(scores - lse).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, kv: Tensor, places: Tensor, mask: Mask) -> Tensor:
        rank, size, there = dist.get_rank(), dist.get_world_size(), kv
        out, lse = block(query, kv[0], kv[1], mask(places[rank][:, None], places[rank][None]))
        for step in range(1, size):
            there = passed(there)
            allowed = mask(places[rank][:, None], places[(rank - step) % size][None])
            out, lse = merge(out, lse, *block(query, there[0], there[1], allowed))
        ctx.save_for_backward(query, kv, out, lse)
        ctx.places, ctx.mask = places, mask
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query, there, out, lse = ctx.saved_tensors
        rank, size = dist.get_rank(), dist.get_world_size()
        own = (grad * out).sum(-1, keepdim=True)
        grad_query, grad_there = torch.zeros_like(query), torch.zeros_like(there)
        for step in range(size):
            key, value = there
            allowed = ctx.mask(ctx.places[rank][:, None], ctx.places[(rank - step) % size][None])
            weights = (_scores(query, key, allowed) - lse).exp()
            of_scores = weights * (grad @ value.mT - own) / math.sqrt(query.shape[-1])
            grad_query += of_scores @ key
            grad_there = grad_there + torch.stack([of_scores.mT @ query, weights.mT @ grad])
            if step < size - 1:
                there, grad_there = passed(torch.stack([there, grad_there]))
        return grad_query, passed(grad_there), None, None  # one hop more, and each gradient is at home


def ring_twice(query: Tensor, kv: Tensor, places: Tensor, mask: Mask) -> tuple[Tensor, list[Tensor]]:
    """`Ring`, in the form of a way."""
    return Ring.apply(query, kv, places, mask), [kv]


WAYS: dict[str, Way] = {
    "all-gather": gathered,
    "all-gather, again in the backward": gathered_again,
    "ring, by autograd": ring,
    "ring, own backward": ring_twice,
}


def shards_sent(way: str, size: int) -> int:
    """By formula: how many times its own keys and values a rank sends in a training step on so many ranks."""
    again = 3 * size - 3
    return {"all-gather, again in the backward": again, "ring, own backward": again + 1}.get(way, 2 * size - 2)


# ---- run and compare
@dataclass(frozen=True)
class Run:
    """One way on so many ranks, forward and backward, next to attention in one process."""

    way: str
    off: float
    """Largest distance of the output and of the three gradients from those of SDPA in one process."""
    forward_sent: int
    backward_sent: int
    """Bytes that one rank sends, counted."""
    kept: int
    """Bytes of keys and values that autograd keeps from forward to backward on one rank."""
    shard: int
    """Bytes of the keys and values that are this rank's own."""

    @property
    def sent(self) -> int:
        return self.forward_sent + self.backward_sent


def run(length: int, size: int, ways: Sequence[str] = tuple(WAYS), documents: Sequence[int] = ()) -> list[Run]:
    """Each way over `length` positions in order on `size` real ranks; with `documents`, their lengths, masked by them.

    Raises ValueError where the length is no multiple of the ranks.
    """
    places = in_order(length, size)
    found = ranks.run(on_rank, size, places, ways, tuple(documents), echo=False)
    expected = _reference(length, documents)
    runs = []
    for number, way in enumerate(ways):
        parts = [rank[number] for rank in found]
        whole = [torch.cat([part["tensors"][at] for part in parts], -2) for at in range(4)]
        off = max((made - exact).abs().max().item() for made, exact in zip(whole, expected, strict=True))
        (counts,) = {part["counts"] for part in parts}  # the same on each rank
        runs.append(Run(way, off, *counts))
    return runs


def tensors(length: int) -> list[Tensor]:
    """Query, key, value and the output's gradient, float32 [batch, heads, length, width], of one seed."""
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(BATCH, HEADS, length, WIDTH, generator=draw) for _ in range(4)]


def _reference(length: int, documents: Sequence[int]) -> list[Tensor]:
    query, key, value, up = tensors(length)
    leaves = [each.requires_grad_() for each in (query, key, value)]
    every = torch.arange(length)
    allowed = mask_of(documents)(every[:, None], every[None])
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    return [out.detach(), *torch.autograd.grad(out, leaves, up)]


def mask_of(documents: Sequence[int]) -> Mask:
    """Causal; with documents, within each of them."""
    return partial(causal, documents=document_of(documents)) if documents else causal


def on_rank(places: Tensor, ways: Sequence[str], documents: Sequence[int]) -> list[dict[str, Any]]:
    """On this rank: output, gradients and counts of each way."""
    return [_one(WAYS[way], places, mask_of(documents)) for way in ways]


def _one(way: Way, places: Tensor, mask: Mask) -> dict[str, Any]:
    query, key, value, up = (each[:, :, places[dist.get_rank()]] for each in tensors(places.numel()))
    kv = torch.stack([key, value]).requires_grad_()
    query.requires_grad_()
    saved: set[int] = set()
    made: list[Any] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.add(tensor.untyped_storage().data_ptr())
        return tensor

    def forward() -> None:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            made.extend(way(query, kv, places, mask))

    sent = [_sent(forward), _sent(lambda: made[0].backward(up))]
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in made[1]}
    kept, shard = sum(storages[each] for each in saved & {*storages}), kv.untyped_storage().nbytes()
    kept = max(kept, shard)  # what a checkpoint keeps, its inputs, is not seen by hooks
    assert kv.grad is not None
    return {"tensors": [made[0].detach(), query.grad, kv.grad[0], kv.grad[1]], "counts": (*sent, kept, shard)}


def _sent(step: Callable[[], Any]) -> int:
    return sum(each.sent_nbytes for each in counted(Program(step)))
