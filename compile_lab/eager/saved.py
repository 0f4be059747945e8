"""What does eager autograd keep for the backward? The yardstick for what a partitioner saves."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..doors import door
from ..source import Line, users_line
from ..tensors import nbytes, storage_nbytes, storage_of


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

    ``extra_nbytes`` is the size of its buffer, counted once, and 0 for inputs and parameters. The forward runs once,
    no backward. Read off ``torch.autograd.graph.saved_tensors_hooks``, which cannot see inside compiled code.

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
    counted = {storage_of(each) for each in there}
    counted |= {storage_of(each) for each, _ in packed if _is_leaf(each)}
    residents, found = set(counted), []
    for tensor, source in packed:
        storage = storage_of(tensor)
        extra = 0 if storage in counted else storage_nbytes(tensor)
        counted.add(storage)
        dtype = str(tensor.dtype).removeprefix("torch.")
        shape, size = tuple(tensor.shape), nbytes(tensor)
        found.append(EagerSaved(shape, dtype, size, extra, source, storage in residents))
    del result
    return tuple(found)


def _is_leaf(tensor: torch.Tensor) -> bool:
    """True for a parameter, and for a view of one."""
    base = tensor if tensor._base is None else tensor._base
    return base.is_leaf and base.requires_grad
