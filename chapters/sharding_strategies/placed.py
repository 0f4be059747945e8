"""Who holds what, asked of real ranks: each one's own part of a DTensor on a mesh of one axis or two."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DeviceMesh, DTensor, distribute_tensor, init_device_mesh

from compile_lab._torch.distributed import strided_shard
from compile_lab.devices import ranks as gangs
from compile_lab.devices.placements import placement
from compile_lab.doors import check_whole, door

MOST_RANKS = 8
AXES = {1: ("rank",), 2: ("dp", "tp")}


@dataclass(frozen=True)
class RankPart:
    """What a rank holds: where it stands on the mesh, and its own ``local`` tensor, from ``to_local()``."""

    at: tuple[int, ...]
    local: Tensor


@door
@dataclass(frozen=True)
class Placed:
    """A tensor on a mesh: its whole ``shape``, a placement for each of the mesh's ``axes``, and every rank's part.

    ``whole`` is what the parts stand for, by ``full_tensor()``.

    >>> import torch
    >>> from chapters.sharding_strategies.placed import Placed, RankPart
    >>> rows = tuple(RankPart((rank,), torch.tensor([rank])) for rank in range(2))
    >>> Placed((2,), ("S(0)",), (2,), ("rank",), rows, torch.arange(2)).cells(rows[1])
    tensor([False,  True])
    """

    shape: tuple[int, ...]
    words: tuple[str, ...]
    mesh: tuple[int, ...]
    axes: tuple[str, ...]
    parts: tuple[RankPart, ...]
    whole: Tensor

    def cells(self, part: RankPart) -> Tensor:
        """Which elements of the whole a rank holds, bool [*shape]: all of them where it is partial or replicated.

        Raises ValueError for equal numbers in the whole: a rank's place is known by its numbers.
        """
        if any(word.startswith("P(") for word in self.words):
            if part.local.shape != self.whole.shape:
                raise ValueError("a partial value that is sharded, too, has no numbers by which its place is known")
            return torch.ones(self.shape, dtype=torch.bool)
        if self.whole.unique().numel() != self.whole.numel():
            raise ValueError("equal numbers in the tensor: give each element its own, as torch.arange does")
        return torch.isin(self.whole, part.local)


@door
def placed(x: Tensor, words: Sequence[str], mesh: Sequence[int] = (2,), axes: Sequence[str] = ()) -> Placed:
    """``x`` on real ranks, by one placement for each axis of the mesh: R, S(d), P(sum) and so on, or _S(d, parts).

    ``_S(0, 2)`` is what FSDP over tensor parallel leaves: dimension 0 was cut in two first, by the axis behind, and a
    rank has its share of both halves. Of P(sum) torch gives each rank its share of each number.

    Raises ValueError for placements that do not fit, more than `MOST_RANKS` ranks, a mesh of more than two axes.
    """
    kinds = [_placement(word) for word in words]
    mesh = _checked_mesh(mesh)
    if len(kinds) != len(mesh):
        raise ValueError(f"{len(kinds)} placements on a mesh of {len(mesh)} axes: give one for each axis")
    if beyond := [word for word, kind in zip(words, kinds, strict=True) if getattr(kind, "dim", 0) >= x.ndim]:
        raise ValueError(f"{beyond[0]} of a tensor of shape {tuple(x.shape)}: its dimensions go to {x.ndim - 1}")
    made = x.detach().clone()

    def make(on: DeviceMesh) -> DTensor:
        return distribute_tensor(made.clone(), on, [_placement(word) for word in words], src_data_rank=None)

    return placed_by(make, mesh, axes)


@door
def placed_by(make: Callable[[DeviceMesh], DTensor], mesh: Sequence[int] = (2, 2), axes: Sequence[str] = ()) -> Placed:
    """The DTensor that ``make(mesh)`` returns on each rank: what an operation leaves where.

    Raises as `placed`, and TypeError if it returns no DTensor.
    """
    sizes = _checked_mesh(mesh)
    names = tuple(axes) or AXES[len(sizes)]
    if len(names) != len(sizes):
        raise ValueError(f"{len(names)} names for a mesh of {len(sizes)} axes: give one for each axis")
    told = gangs.run(_on_rank, math.prod(sizes), make, sizes, names, echo=False)
    words, shape, _, _, whole = told[0]
    return Placed(shape, words, sizes, names, tuple(RankPart(at, local) for _, _, at, local, _ in told), whole)


def _on_rank(make: Callable[[DeviceMesh], Any], sizes: tuple[int, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
    made = make(mesh)
    if not isinstance(made, DTensor):
        raise TypeError(f"make returned {type(made).__name__}; it returns a DTensor on the mesh that it is given")
    at = tuple(mesh.get_coordinate() or (dist.get_rank(),))
    whole = made.full_tensor().detach()
    return tuple(map(str, made.placements)), tuple(made.shape), at, made.to_local().detach(), whole


def _placement(word: str) -> Any:
    if found := re.fullmatch(r"_S\((\d+), ?(\d+)\)", word):
        return strided_shard(int(found[1]), int(found[2]))
    return placement(word)


def _checked_mesh(mesh: Sequence[int]) -> tuple[int, ...]:
    if not 1 <= len(mesh) <= 2:
        raise ValueError(f"a mesh of {len(mesh)} axes: one or two can be shown; take a slice of it")
    for size in mesh:
        check_whole("a side of the mesh", size, 1, MOST_RANKS)
    check_whole("the number of ranks", math.prod(mesh), 1, MOST_RANKS)
    return tuple(mesh)
