"""What does eager autograd keep for the backward? The yardstick for what a partitioner saves."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..doors import door
from ..source import Line, users_line
from ..tensors import memories, nbytes, storage_nbytes, storage_of


@dataclass(frozen=True)
class EagerSaved:
    """A tensor that eager autograd holds until the backward. Bytes as in ``SavedTensor``."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    extra_nbytes: int
    source: Line | None
    resident: bool


@door
def eager_saved(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[EagerSaved, ...]:
    """Every tensor that autograd saves while ``fn(*args, **kwargs)`` runs eagerly, in order.

    ``extra_nbytes`` is the size of its buffer, counted once, and 0 for inputs and parameters. Of a tensor that wraps
    others bytes are those of what it wraps, of a DTensor this rank's part. The forward runs once, no backward. Read off
    ``torch.autograd.graph.saved_tensors_hooks``, which cannot see inside compiled code.

    >>> import torch
    >>> from compile_lab.eager import eager_saved
    >>> x = torch.ones(1000, requires_grad=True)
    >>> [(each.shape, each.extra_nbytes) for each in eager_saved(lambda: x.sin().exp())]
    [((1000,), 0), ((1000,), 4000)]
    """
    packed: list[tuple[torch.Tensor, Line | None]] = []  # the tensors are held, so that no address is used twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append((tensor, users_line(sys._getframe(1), __file__)))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = fn(*args, **kwargs)
    there = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
    if isinstance(fn, torch.nn.Module):
        there += [*fn.parameters(), *fn.buffers()]
    there += [each for each, _ in packed if _is_leaf(each)]
    counted = {storage_of(part) for part in memories(there)}
    residents, found = set(counted), []
    for tensor, source in packed:
        parts = memories(tensor)
        buffers = {storage_of(part): storage_nbytes(part) for part in parts}
        extra = sum(size for storage, size in buffers.items() if storage not in counted)
        counted |= set(buffers)
        dtype = str(tensor.dtype).removeprefix("torch.")
        shape, resident = tuple(tensor.shape), residents.issuperset(buffers)
        found.append(EagerSaved(shape, dtype, nbytes(parts), extra, source, resident))
    del result
    return tuple(found)


def _is_leaf(tensor: torch.Tensor) -> bool:
    """True for a parameter, and for a view of one."""
    base = tensor if tensor._base is None else tensor._base
    return base.is_leaf and base.requires_grad
