"""The tensors in a value, the memory behind each, and its bytes."""

from collections.abc import Sequence
from typing import Any

import torch


def nbytes(value: Any) -> int:
    """Bytes of a tensor's elements, or of all tensors in a tuple; 0 for anything else."""
    if isinstance(value, torch.Tensor):
        return number(value.numel()) * value.element_size()
    return sum(map(nbytes, value)) if isinstance(value, list | tuple) else 0


def reach_nbytes(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from a tensor's first element to its last: what is asked for if it gets memory of its own."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return 0 if 0 in shape else reach * itemsize


def number(size: Any) -> int:
    """A size as a number: of a symbolic one, the size that it was traced with."""
    return size if isinstance(size, int) else size.node.hint
