"""The operations of `simulator.spmd_types` on tensors: the same program on real ranks, and in one process.

So what the types say can be compared with what comes of it: is each value's gradient that of one process?
"""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from compile_lab.devices import ranks as gangs
from compile_lab.doors import check_whole, door
from compile_lab.simulator.spmd_types import MOVES, I, R


class Alone:
    """One process: a value is whole, and nothing is sent."""

    def gelu(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    def mean_of_squares(self, x: Tensor) -> Tensor:
        return x.square().mean()

    def replicate(self, x: Tensor) -> Tensor:
        return x

    def partial(self, x: Tensor) -> Tensor:
        return x

    def all_reduce(self, x: Tensor, to: str = R) -> Tensor:
        return x

    def all_gather(self, x: Tensor, to: str = R) -> Tensor:
        return x

    def reduce_scatter(self, x: Tensor) -> Tensor:
        return x


class OnRanks(Alone):
    """A rank among others: each operation sends what `MOVES` says, forward and backward. Shards are of rows."""

    def replicate(self, x: Tensor) -> Tensor:
        return _Move.apply(x, *MOVES["replicate", "I", "R"])

    def all_reduce(self, x: Tensor, to: str = R) -> Tensor:
        return _Move.apply(x, *MOVES["all_reduce", "P", to])

    def all_gather(self, x: Tensor, to: str = R) -> Tensor:
        forward, backward = MOVES["all_gather", "V", to]
        return _Move.apply(x, forward, backward or "cut")

    def reduce_scatter(self, x: Tensor) -> Tensor:
        return _Move.apply(x, *MOVES["reduce_scatter", "P", "V"])


@door
def gradient_errors(
    program: Callable[..., Tensor],
    values: Mapping[str, Tensor],
    shards: Mapping[str, int],
    ranks: int = 2,
) -> dict[str, float]:
    """How far each value's gradient is from one process's, of its largest element, at worst over ``ranks`` real ranks.

    ``values`` are whole; ``shards`` has the dimension along which a value is cut, the others are the same everywhere
    (type I). ``loss`` is the loss's own error. Raises ValueError for a shard of a value that is not there, or does not
    divide.
    """
    check_whole("ranks", ranks, 2, 64)
    for name, dim in shards.items():
        if name not in values:
            raise ValueError(f"shards: there is no value {name}; there are {', '.join(values)}")
        if values[name].shape[dim] % ranks:
            raise ValueError(
                f"{name} has {values[name].shape[dim]} along {dim}, which {ranks} ranks cannot share evenly"
            )
    told = gangs.run(_errors, ranks, program, dict(values), dict(shards), echo=False)
    return {name: max(each[name] for each in told) for name in told[0]}


def _errors(program: Callable[..., Tensor], values: dict[str, Tensor], shards: dict[str, int]) -> dict[str, float]:
    alone = _gradients(Alone(), program, values)
    mine = {name: _part(x, shards.get(name)) for name, x in values.items()}
    got = _gradients(OnRanks(), program, mine)
    due = {name: _part(x, shards.get(name)) for name, x in alone.items()}
    return {name: float((got[name] - want).abs().max() / alone[name].abs().max()) for name, want in due.items()}


def _gradients(operations: Alone, program: Callable[..., Tensor], values: dict[str, Tensor]) -> dict[str, Tensor]:
    leaves = {name: x.detach().clone().requires_grad_() for name, x in values.items()}
    loss = program(operations, **leaves)
    loss.backward()
    return {"loss": loss.detach()} | {name: x.grad for name, x in leaves.items()}


def _part(x: Tensor, dim: int | None) -> Tensor:
    return x if dim is None else x.chunk(dist.get_world_size(), dim)[dist.get_rank()]


class _Move(torch.autograd.Function):
    """One collective forward and one backward; None sends nothing."""

    @staticmethod
    def forward(ctx, x: Tensor, forward: str | None, backward: str | None) -> Tensor:
        ctx.backward_sends = backward
        return _sent(x, forward)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _sent(gradient, ctx.backward_sends), None, None


def _sent(x: Tensor, how: str | None) -> Tensor:
    if how is None:
        return x.view_as(x)
    n = dist.get_world_size()
    if how == "cut":
        return x.chunk(n)[dist.get_rank()].clone()
    if how == "all_gather":
        got = [torch.empty_like(x) for _ in range(n)]
        dist.all_gather(got, x.contiguous())
        return torch.cat(got)
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total if how == "all_reduce" else total.chunk(n)[dist.get_rank()].clone()


__all__ = ["Alone", "I", "OnRanks", "R", "gradient_errors"]
