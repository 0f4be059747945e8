"""The tensors in a value, the memory behind each, and its bytes."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a value, however nested in tuples, lists and dicts, in order; one that is there twice, twice."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def nbytes(value: Any) -> int:
    """Bytes of the elements of all tensors in a value, whether or not they share memory; 0 where there are none."""
    return sum(number(tensor.numel()) * tensor.element_size() for tensor in tensors(value))


def storage_of(tensor: Tensor) -> int:
    """The memory behind a tensor: the same number for it and its views, and for no other while the tensor is held."""
    return tensor.untyped_storage()._cdata


def storage_nbytes(tensor: Tensor) -> int:
    """Bytes of the memory behind a tensor, of which it may show a part."""
    return number(tensor.untyped_storage().nbytes())


def reach_nbytes(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from a tensor's first element to its last: what is asked for if it gets memory of its own."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return 0 if 0 in shape else reach * itemsize


def number(size: Any) -> int:
    """A size as a number: of a symbolic one, the size that it was traced with."""
    return size if isinstance(size, int) else size.node.hint
