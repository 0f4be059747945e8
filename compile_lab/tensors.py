"""The tensors in a value, the memory behind each, and its bytes."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_leaves


def tensors(value: Any) -> list[Tensor]:
    """Every tensor in a value, however nested in tuples, lists and dicts, in order; one that is there twice, twice."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def memories(value: Any) -> list[Tensor]:
    """The tensors in a value as those that have memory: a sparse one as its indices and its values, a subclass that
    wraps others as those, however deep; of a DTensor that is this rank's part."""
    return [part for each in tensors(value) for part in _parts(each)]


def _parts(tensor: Tensor) -> Sequence[Tensor]:
    if is_traceable_wrapper_subclass(tensor):
        return memories([getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]])
    match tensor.layout:
        case torch.sparse_coo:
            return tensor._indices(), tensor._values()
        case torch.sparse_csr | torch.sparse_bsr:
            return tensor.crow_indices(), tensor.col_indices(), tensor.values()
        case torch.sparse_csc | torch.sparse_bsc:
            return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
        case _:
            return (tensor,)


def is_wrapper(kind: type) -> bool:
    """True for a subclass of Tensor that wraps others and says which, as DTensor does."""
    return is_traceable_wrapper_subclass_type(kind)


def is_fake(tensor: Tensor) -> bool:
    """True for a tensor that has a size and no memory: a fake one, or one on the device "meta"."""
    return tensor.untyped_storage().device.type == "meta"


def is_hollow(tensor: Tensor) -> bool:
    """True for a tensor without memory of its own that does not say whose it shows: a wrapper without
    ``__tensor_flatten__``."""
    if type(tensor).__torch_dispatch__ == Tensor.__torch_dispatch__ or is_fake(tensor):
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:  # torch's answer for a storage that holds nothing
        return True
    return False


def leaves(outputs: Iterable[Tensor]) -> list[Tensor]:
    """The tensors that gradients of these outputs would be accumulated into, in the order of their first appearance."""
    pending: list[Any] = [output.grad_fn for output in outputs]
    seen, found = set(), []
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        pending.extend(following for following, _ in node.next_functions)
    return found


@contextmanager
def gradients_kept(leaves: Iterable[Tensor]) -> Iterator[None]:
    """In the block none of the leaves has a gradient yet; after it each has the one that it had."""
    before = [(each, each.grad) for each in leaves]
    for each, _ in before:
        each.grad = None
    try:
        yield
    finally:
        for each, gradient in before:
            each.grad = gradient


def nbytes(value: Any) -> int:
    """Bytes of the elements of all tensors in a value, whether or not they share memory; 0 where there are none."""
    return sum(number(tensor.numel()) * tensor.element_size() for tensor in tensors(value))


def known_nbytes(tensor: Tensor) -> int:
    """Bytes of a tensor's elements; 0 where its size hangs on values, which fake tensors have none of."""
    sizes = [size if isinstance(size, int) else size.node.hint for size in tensor.shape]
    return 0 if None in sizes else math.prod(sizes) * tensor.element_size()


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
