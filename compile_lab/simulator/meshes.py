"""Which patterns are there, and which mesh does each make of a number of devices? Read from ``patterns.toml``.

The table is data because two programs must agree on it that may not import each other: this package predicts, and the
book's model, which knows no instrument, trains. Shared code would be a third package, for a browser to load as well; a
table that each reads with a dozen lines of its own is less, and it states the rule where both can be held against it.
"""

import math
import pkgutil
import tomllib
from collections.abc import Mapping
from typing import Any

from ..doors import check_whole
from .sharding import Shape, experts_of

_TEXT = pkgutil.get_data(__package__, "patterns.toml") or b""  # from a zip, too: a page has no folder
_TABLE = tomllib.loads(_TEXT.decode())

PATTERNS: dict[str, tuple[str, ...]] = {name: tuple(axes) for name, axes in _TABLE["patterns"].items()}
"""Each pattern's axes, outermost first."""

VARIANTS: dict[str, Mapping[str, Any]] = _TABLE["variants"]
"""ZeRO's first two stages, and FSDP that keeps what it has gathered: ``axes``, ``slices`` and ``reshard`` of each."""

COMPARED = PATTERNS | {name: tuple(each["axes"]) for name, each in VARIANTS.items()}
"""The axes of all that is tried where a model without experts has to fit."""

PLANNED = COMPARED | {name: tuple(axes) for name, axes in _TABLE["trained"].items()}
"""The axes of all that can be planned, and shown on the stage."""

AXES: tuple[str, ...] = tuple(_TABLE["axes"]["outermost_first"])
"""The dimensions that a mesh may have, outermost first: neighbours along ``tp`` are neighbouring ranks."""

DATA_AXES: tuple[str, ...] = tuple(_TABLE["axes"]["split_the_batch"])
"""Along these the batch is split, and traffic of parameters and gradients runs during the computation."""

SLICED_AXES: tuple[str, ...] = tuple(_TABLE["axes"]["slice_the_parameters"])
"""Along these each device has a slice of each parameter."""

SEQUENCE_PARALLEL: tuple[str, ...] = tuple(_TABLE["axes"]["split_the_sequence"])
"""Patterns in which tensor parallel splits the sequence too."""

MACHINE: int = _TABLE["machine"]
"""Devices of one machine, joined by a fast network."""


def compared(shape: Shape) -> tuple[str, ...]:
    """The patterns that are tried where a model has to fit: of one with experts "ep", too, and none that slices an MLP.

    >>> from compile_lab.simulator.explored_view import MIXTURES
    >>> from compile_lab.simulator.meshes import compared
    >>> compared(MIXTURES["OLMoE 7 B"])
    ('one device', 'ddp', 'fsdp', 'hsdp', 'pp', 'pp+fsdp', 'zero-1', 'zero-2', 'fsdp, kept', 'ep')
    """
    if not experts_of(shape):
        return tuple(COMPARED)
    return (*(name for name, axes in COMPARED.items() if "tp" not in axes), "ep")


def mesh_of(shape: Shape, pattern: str, devices: int | Mapping[str, int]) -> dict[str, int]:
    """The sizes of a pattern's axes on so many devices, outermost first: {"shard": 2, "tp": 4}.

    From a number of devices the axes choose in the table's order: tensor parallel first, inside a machine; then a
    pipeline of up to 8 stages; what splits the batch takes the rest. Sizes that are given are checked and returned.
    Whether the last size divides the model is checked by ``sharding.check_divides``.

    Raises ValueError for axes that are not the pattern's, sizes below 1, and a number of devices that makes no mesh.
    """
    axes = PLANNED[pattern]
    if isinstance(devices, Mapping):
        if set(devices) != set(axes):
            raise ValueError(f"mesh {dict(devices)} for pattern {pattern!r}: its axes are {', '.join(axes) or 'none'}")
        for axis, size in devices.items():
            check_whole(f"mesh[{axis!r}]", size)
        return {axis: devices[axis] for axis in axes}
    check_whole("devices", devices)
    if devices < 2 ** len(axes) or (not axes and devices > 1):
        raise ValueError(
            f"devices={devices} for pattern {pattern!r}: it needs "
            f"{f'at least 2 along each of {chr(44).join(axes)}' if axes else 'exactly one'}; take another number of "
            "devices or another pattern"
        )
    choices = [choice for choice in _TABLE["choice"] if choice["axis"] in axes]
    sizes: dict[str, int] = {}
    rest = devices
    for later, choice in zip(reversed(range(len(choices))), choices, strict=True):
        inside = math.prod(sizes.values())
        sizes[choice["axis"]] = size = _largest(choice, shape, pattern, rest, later, inside) if later else rest
        rest //= size
    return {axis: sizes[axis] for axis in axes}


def _largest(choice: Mapping[str, Any], shape: Shape, pattern: str, rest: int, later: int, inside: int) -> int:
    """The size that an axis chooses, with ``rest`` devices left and ``later`` axes still to choose.

    ``inside`` is the product of the sizes that are chosen already, which lie inside this axis.
    """
    leave, divided = 2**later, choice.get("divides", "devices")
    if choice.get("leaves_a_machine") and rest >= 2 * MACHINE:
        leave = max(leave, MACHINE // inside)
    whole = getattr(shape, divided, rest)
    for size in range(min(choice["most"], rest // leave), 1, -1):
        if rest % size == whole % size == 0:
            return size
    raise ValueError(
        f"pattern {pattern!r}: no size of axis {choice['axis']!r} from 2 to {choice['most']} divides both {rest} "
        f"devices and {whole} {divided}, and leaves {leave} for the other axes; give the mesh, or other devices"
    )
