"""Pieces of MiniGPT that a pattern needs in another form: attention by heads or positions, experts, a stage."""

from __future__ import annotations

from typing import cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

# Of torch 2.11 to 2.15, without a public name. A collective in an autograd.Function of one's own loses its gradient in
# code that torch 2.11 compiles: it is zero, and nothing is said.
from torch.distributed._functional_collectives import all_to_all_single_autograd as exchanged
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.attention.bias import causal_lower_right

from ..mixture import Mixture, by_experts
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


def places(length: int, ranks: int) -> Tensor:
    """Which positions of a sequence each rank takes, int64 [ranks, positions]: a piece of the front, one of the back.

    Under a causal mask the first positions look at little and the last at much, so that each rank has as much to do.

    >>> from mini_model.parallel.parts import places
    >>> places(8, ranks=2)
    tensor([[0, 1, 6, 7],
            [2, 3, 4, 5]])
    """
    pieces = torch.arange(length).view(2 * ranks, -1)
    return torch.cat([pieces[:ranks], pieces[ranks:].flip(0)], dim=1)


class ContextAttention(nn.Module):
    """The same attention for the positions of one rank, to which the keys and values of all ranks are gathered.

    x: float [batch, positions of this rank, dim], at `places`. Each of their two pieces looks at all before it; no
    matrix of queries by keys is made where a kernel knows that mask. (Grattafiori et al. 2024 train Llama 3 so.)
    """

    def __init__(self, whole: Attention, mesh: DeviceMesh, context: int) -> None:
        super().__init__()
        self.heads, self.mesh, self.qkv, self.out = whole.heads, mesh, whole.qkv, whole.out
        self.ranks, self.rank, self.length = mesh.size(), mesh.get_local_rank(), 0
        self.at(context // self.ranks)

    def at(self, length: int) -> None:
        """Prepares for so many positions a rank.

        Apart from `forward`, for torch 2.11 to 2.15 make no causal bias in compiled code or under a dispatch mode.
        """
        if length == self.length:
            return
        self.length, piece = length, length // 2
        self.ends = (self.rank + 1) * piece, (2 * self.ranks - self.rank) * piece  # of what the two pieces look at
        self.masks = [causal_lower_right(piece, end) for end in self.ends]

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind()
        keys, values = self._of_all(k), self._of_all(v)
        y = torch.cat(
            [
                F.scaled_dot_product_attention(piece, keys[:, :, :end], values[:, :, :end], attn_mask=mask)
                for piece, end, mask in zip(q.chunk(2, dim=2), self.ends, self.masks, strict=True)
            ],
            dim=2,
        )
        return self.out(y.transpose(1, 2).reshape(batch, length, dim))

    def _of_all(self, own: Tensor) -> Tensor:
        """[batch, heads, positions, width] in the sequence's order. The gradient is summed, and each rank gets its own.

        They come rank by rank, each with a piece of the front and one of the back.
        """
        sliced = DTensor.from_local(own, self.mesh, [Shard(2)], run_check=False)
        every = sliced.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
        front, back = every.unflatten(2, (self.ranks, 2, -1)).unbind(3)
        return torch.cat([front, back.flip(2)], dim=2).flatten(2, 3)


class ExchangedMixture(Mixture):
    """The same mixture with some of the experts on each rank: rows travel to their expert's rank, and back.

    Of `whole` every rank has the same; of n ranks, rank r keeps experts r · experts/n up to (r + 1) · experts/n.
    """

    def __init__(self, whole: Mixture, mesh: DeviceMesh) -> None:
        nn.Module.__init__(self)
        self.choices, self.mesh, self.router = whole.choices, mesh, whole.router
        self.up, self.down = (
            nn.Parameter(distribute_tensor(each.detach(), mesh, [Shard(0)])) for each in (whole.up, whole.down)
        )

    def computed(self, rows: Tensor, counts: Tensor) -> Tensor:
        ranks, group, device = self.mesh.size(), self.mesh.get_group(), rows.device.type
        if torch.is_autocast_enabled(device):  # they travel as the experts compute
            rows = rows.to(torch.get_autocast_dtype(device))
        coming = torch.empty_like(counts)  # how many rows come, from each rank for each expert here
        dist.all_to_all_single(coming, counts, group=group)
        send, receive = (each.view(ranks, -1).sum(1).tolist() for each in (counts, coming))
        came = exchanged(rows, receive, send, group)
        # They come sorted by rank, then by expert. The experts want them sorted by expert.
        local = coming.view(ranks, -1)
        mine = torch.arange(local.shape[1], device=rows.device).repeat(ranks)
        order = mine.repeat_interleave(local.flatten(), output_size=len(came)).argsort(stable=True)
        up, down = (cast(DTensor, each).to_local() for each in (self.up, self.down))
        done = by_experts(came[order], up, down, local.sum(0))
        return exchanged(torch.empty_like(done).index_copy(0, order, done), send, receive, group)


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
