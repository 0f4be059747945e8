"""Who holds what: a tensor's parts on each rank under a placement, and the tensor that such parts stand for.

Placements are written as torch prints them: ``R`` is Replicate, ``S(0)`` Shard, ``P(sum)`` Partial (or avg, max, min).
Nothing here asks DTensor: it is what DTensor is compared with.
"""

import re
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

from ..doors import check_whole, door, shown

EVEN, UNEVEN, EMPTY = "even", "uneven", "empty"
MOST_RANKS = 1024
REDUCTIONS = ("sum", "avg", "max", "min")


@door
def placement(word: str) -> Placement:
    """The placement that torch prints as ``word``.

    Raises ValueError for another word than R, S(dimension), P(sum), P(avg), P(max), P(min).

    >>> from compile_lab.devices.placements import placement
    >>> placement("S(0)"), placement("P(sum)")
    (Shard(dim=0), Partial(sum))
    """
    if word == "R":
        return Replicate()
    if found := re.fullmatch(r"S\((\d+)\)", word):
        return Shard(int(found[1]))
    if (found := re.fullmatch(r"P\((\w+)\)", word)) and found[1] in REDUCTIONS:
        return Partial(found[1])
    raise ValueError(
        f"placement {shown(word)}: it is R, S(d) with a dimension d, or P(r) with r one of {', '.join(REDUCTIONS)}"
    )


@door
def parts(x: Tensor, word: str, ranks: int) -> tuple[Tensor, ...]:
    """What each of ``ranks`` ranks holds of ``x`` under the placement ``word``; `whole` puts it together again.

    A shard is what ``torch.chunk`` gives, so the last ones may be smaller, or empty. Partial sums are ``ranks`` times
    ``x`` on the first rank and ``-x`` on each other one, and averages that times ``ranks``: a function that is not
    linear tells itself. Of a partial maximum a rank holds its share of the elements, and elsewhere a number below all
    of them; of a minimum, above.

    Raises ValueError for a dimension that ``x`` has not, for parts that ``x``'s type or values cannot have.

    >>> import torch
    >>> from compile_lab.devices.placements import parts
    >>> parts(torch.arange(5), "S(0)", ranks=3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> parts(torch.arange(5), "P(sum)", ranks=2)
    (tensor([0, 2, 4, 6, 8]), tensor([ 0, -1, -2, -3, -4]))
    """
    check_whole("ranks", ranks, 1, MOST_RANKS)
    kind = placement(word)
    if isinstance(kind, Shard):
        if kind.dim >= x.ndim:
            raise ValueError(f"{word} of a tensor of shape {tuple(x.shape)}: its dimensions go to {x.ndim - 1}")
        return tuple(_chunk(x, kind.dim, ranks, rank).contiguous() for rank in range(ranks))
    if isinstance(kind, Partial):
        return _partial(x, kind.reduce_op, ranks)
    return (x,) * ranks


@door
def whole(held: Sequence[Tensor], word: str) -> Tensor:
    """The tensor that the ranks' parts stand for, in ``held``'s own type.

    Raises ValueError without a part, for a placement that is none, and where replicas differ.

    >>> import torch
    >>> from compile_lab.devices.placements import whole
    >>> whole([torch.tensor([1, 2]), torch.tensor([10, 20])], "P(sum)")
    tensor([11, 22])
    >>> whole([torch.tensor([1, 2]), torch.tensor([10, 20])], "R")
    Traceback (most recent call last):
        ...
    ValueError: the parts of a replicated tensor differ, and it stands for one value
    """
    kind = placement(word)
    if not held:
        raise ValueError("held is empty: give what each rank holds, one tensor a rank")
    if isinstance(kind, Shard):
        return torch.cat(list(held), kind.dim)
    if isinstance(kind, Partial):
        return reduced(held, kind.reduce_op)
    if not all(torch.equal(held[0], each) for each in held[1:]):
        raise ValueError("the parts of a replicated tensor differ, and it stands for one value")
    return held[0]


def reduced(held: Sequence[Tensor], by: str) -> Tensor:
    """Partial values put together."""
    if by in ("max", "min"):
        return reduce(torch.maximum if by == "max" else torch.minimum, held)
    total = reduce(torch.add, held)
    if by == "sum":
        return total
    exact = total.is_floating_point() or total.is_complex()
    return total / len(held) if exact else torch.div(total, len(held), rounding_mode="trunc")


def sharing(size: int, ranks: int) -> str:
    """How ``size`` rows are shared out: ``even``, ``uneven`` (a rank has fewer), or ``empty`` (a rank has none)."""
    if size % ranks == 0 and size:
        return EVEN
    longest = -(-size // ranks)
    return UNEVEN if longest * (ranks - 1) < size else EMPTY


def _chunk(x: Tensor, dim: int, ranks: int, rank: int) -> Tensor:
    longest = -(-x.shape[dim] // ranks)
    start = min(rank * longest, x.shape[dim])
    return x.narrow(dim, start, min(longest, x.shape[dim] - start))


def _partial(x: Tensor, by: str, ranks: int) -> tuple[Tensor, ...]:
    if x.dtype is torch.bool or (x.is_complex() and by in ("max", "min")):
        raise ValueError(f"P({by}) of {x.dtype}: such values have no {by}; take R or S(d)")
    if (x.is_floating_point() or x.is_complex()) and not x.isfinite().all():
        raise ValueError(
            f"P({by}) of a tensor with infinite values or NaN: its parts would not make it; take R or S(d)"
        )
    if by in ("sum", "avg"):
        scale = ranks if by == "avg" else 1
        return tuple(x * (ranks * scale if rank == 0 else -scale) for rank in range(ranks))
    if not x.numel():
        return (x,) * ranks
    least, most = x.min(), x.max()
    neutral = least - least.abs() - 1 if by == "max" else most + most.abs() + 1
    if not x.is_floating_point():  # no overflow: where a type ends, its end is neutral, too
        neutral = neutral if (neutral < least if by == "max" else neutral > most) else least if by == "max" else most
    owner = (torch.arange(x.numel()) % ranks).reshape(x.shape)
    return tuple(torch.where(owner == rank, x, neutral) for rank in range(ranks))
