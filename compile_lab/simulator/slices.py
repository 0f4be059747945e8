"""Which part of each matrix of a layer does a device hold? Shares of its rows and columns, for a picture to scale."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .meshes import SLICED_AXES
from .sharding import Parameter, Shape, parameters

MATRICES = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")
"""The four of a layer that hold nearly all of it: vectors are left out of pictures. Of experts, the last two are those
of all of them, one below the other."""


@dataclass(frozen=True)
class Part:
    """A rectangle of a matrix: from row share ``top`` to ``bottom``, from column share ``left`` to ``right``."""

    top: float = 0.0
    bottom: float = 1.0
    left: float = 0.0
    right: float = 1.0

    @property
    def share(self) -> float:
        return (self.bottom - self.top) * (self.right - self.left)


def matrices(shape: Shape) -> dict[str, Parameter]:
    """The matrices of a layer by their short names: ``qkv``, ``out``, ``up``, ``down``."""
    found = {each.name.removeprefix("blocks.*.").removesuffix(".weight"): each for each in parameters(shape)}
    return {name.split(".")[1]: found[name] for name in MATRICES}


def places(mesh: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Where each device stands on the mesh, in the order of ranks: the innermost axis runs fastest."""
    for rank in range(math.prod(mesh.values())):
        place, rest = {}, rank
        for axis, size in reversed(list(mesh.items())):
            rest, place[axis] = divmod(rest, size)
        yield {axis: place[axis] for axis in mesh}


def part_of(parameter: Parameter, mesh: Mapping[str, int], place: Mapping[str, int], sharded: bool = True) -> Part:
    """What the device at this place holds of a parameter of its own layers: sliced along ``tp``, then by rows.

    Without ``sharded``, what it computes on: the same, its rows gathered, but under expert parallel no experts.
    """
    top, bottom, left, right = 0.0, 1.0, 0.0, 1.0
    if (tp := mesh.get("tp", 1)) > 1 and parameter.tp is not None:
        low, high = place["tp"] / tp, (place["tp"] + 1) / tp
        if parameter.tp == 0:
            top, bottom = low, high
        else:
            left, right = low, high
    for axis in SLICED_AXES:
        if axis in mesh and (sharded or (parameter.expert and axis == "ep")):
            high = (bottom - top) / mesh[axis]
            top, bottom = top + place[axis] * high, top + (place[axis] + 1) * high
    return Part(top, bottom, left, right)
