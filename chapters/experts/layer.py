"""A routed feed-forward layer: a router chooses k experts for each token, and four ways to bring the tokens there.

Shapes: x [tokens, WIDTH] float32, ``gate`` and ``expert`` [tokens, k]. An assignment is one of the tokens · k pairs of
a token and an expert that it chose; assignment i belongs to token i // k.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .boxes import room
from .sizes import CAPACITY, CHOICES, EXPERTS, HIDDEN, WIDTH


@dataclass(frozen=True)
class Routed:
    """Where each token goes: ``gate`` and ``expert`` [tokens, k], the gates of a token sum to 1."""

    gate: Tensor
    expert: Tensor

    @property
    def token(self) -> Tensor:
        """Of each assignment the token, int64 [tokens · k]."""
        count, choices = self.expert.shape
        return torch.arange(count * choices, device=self.expert.device) // choices


class MoE(nn.Module):
    """GELU(x Up) Down by the matrices of the k experts that the router chooses for each token, weighted by its gates.

    ``way`` is one of `WAYS`. ``bias`` is added to the router's logits, expert by expert, for a skew that one can set.
    Raises ValueError for another way.
    """

    bias: Tensor

    def __init__(self, way: str = "grouped", capacity: float = CAPACITY, bias: Tensor | None = None) -> None:
        super().__init__()
        if way not in WAYS:
            raise ValueError(f"way={way!r}: it is one of {', '.join(map(repr, WAYS))}")
        self.dispatch, self.capacity = WAYS[way], capacity
        draw = torch.Generator().manual_seed(0)
        self.router = nn.Parameter(torch.randn(WIDTH, EXPERTS, generator=draw) / WIDTH**0.5)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN, generator=draw) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH, generator=draw) / HIDDEN**0.5)
        self.register_buffer("bias", torch.zeros(EXPERTS) if bias is None else bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.dispatch(self, x, route(x, self.router, self.bias))


def route(x: Tensor, router: Tensor, bias: Tensor) -> Routed:
    """The top k experts of each token, and the softmax of their logits over these k."""
    logit, expert = (x @ router + bias).topk(CHOICES, dim=-1)
    return Routed(logit.softmax(-1), expert)


def loop(layer: MoE, x: Tensor, routed: Routed) -> Tensor:
    """Sort by expert, read how many rows each one gets, and take one expert after the other."""
    order, counts = by_expert(routed.expert)
    groups = x[routed.token[order]].split(counts.tolist())
    rows = torch.cat([expert_mlp(group, layer.up[e], layer.down[e]) for e, group in enumerate(groups)])
    return combined(x, routed, order, rows)


def masks(layer: MoE, x: Tensor, routed: Routed) -> Tensor:
    """Ask for each expert which tokens chose it, as Mixtral's first code did."""
    out = torch.zeros_like(x)
    for e in range(EXPERTS):
        token, choice = torch.where(routed.expert == e)
        rows = expert_mlp(x[token], layer.up[e], layer.down[e])
        out = out.index_add(0, token, rows * routed.gate[token, choice, None])
    return out


def padded(layer: MoE, x: Tensor, routed: Routed) -> Tensor:
    """A box of `room` rows for each expert: what is over is dropped, what is missing is padded."""
    size = room(x.shape[0], layer.capacity)
    chosen = F.one_hot(routed.expert.flatten(), EXPERTS)
    place = (chosen.cumsum(0) * chosen).sum(1) - 1  # in the queue of its expert, from 0 on
    fits = place < size
    slot = torch.where(fits, routed.expert.flatten() * size + place, EXPERTS * size)  # the last one is thrown away
    boxes = x.new_zeros(EXPERTS * size + 1, WIDTH).index_copy(0, slot, x[routed.token])[:-1].view(EXPERTS, size, WIDTH)
    rows = torch.bmm(F.gelu(torch.bmm(boxes, layer.up)), layer.down).flatten(0, 1)
    rows = torch.cat([rows, rows.new_zeros(1, WIDTH)])[slot] * routed.gate.flatten()[:, None]
    return torch.zeros_like(x).index_add(0, routed.token, rows)


def grouped(layer: MoE, x: Tensor, routed: Routed) -> Tensor:
    """Sort by expert, and two matmuls over all groups at once, which read on the device where each group ends."""
    order, counts = by_expert(routed.expert)
    rows = grouped_mlp(x[routed.token[order]], layer.up, layer.down, counts)
    return combined(x, routed, order, rows)


WAYS: dict[str, Callable[[MoE, Tensor, Routed], Tensor]] = {
    "loop": loop,
    "masks": masks,
    "padded": padded,
    "grouped": grouped,
}


def expert_mlp(rows: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """One expert on its rows [rows, WIDTH]."""
    return F.gelu(rows @ up) @ down


def grouped_mlp(rows: Tensor, up: Tensor, down: Tensor, counts: Tensor) -> Tensor:
    """All experts on rows [rows, WIDTH] that are sorted by expert, ``counts`` of each.

    In bf16: torch 2.13 takes float32 in eager mode, and refuses to compile it.
    """
    rows, up, down = (each.to(torch.bfloat16) for each in (rows, up, down))
    ends = counts.cumsum(0).to(torch.int32)
    return F.grouped_mm(F.gelu(F.grouped_mm(rows, up, offs=ends)), down, offs=ends).float()


def by_expert(expert: Tensor) -> tuple[Tensor, Tensor]:
    """Assignments in the order of their experts, and the number of each expert's, int64.

    ``bincount`` would count as well, but the size of its result depends on the data.
    """
    flat = expert.flatten()
    counts = torch.zeros(EXPERTS, dtype=torch.int64, device=flat.device)
    counts = counts.scatter_add(0, flat, torch.ones_like(flat))
    return flat.argsort(stable=True), counts


def combined(x: Tensor, routed: Routed, order: Tensor, rows: Tensor) -> Tensor:
    """Each token's rows, which stand in the order of their experts, weighted by its gates and added."""
    weighted = rows * routed.gate.flatten()[order, None]
    return torch.zeros_like(x).index_add(0, routed.token[order], weighted)


def grads(*leaves: Tensor) -> list[Tensor]:
    """The gradients of those that have one."""
    return [each.grad for each in leaves if each.grad is not None]


def tokens(count: int, seed: int = 1) -> Tensor:
    """Seeded inputs, float32 [count, WIDTH]."""
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
