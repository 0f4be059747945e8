"""What the kernels ask of a size. They check no bounds where a tile fits, so a size that does not fit is refused."""

from __future__ import annotations


def multiple(name: str, size: int, of: int) -> int:
    """The same size, if it is a multiple of `of`; else ValueError."""
    if size < of or size % of:
        raise ValueError(f"{name} is {size}; this kernel goes in tiles and needs a multiple of {of}")
    return size


def three_powers(name: str, size: int) -> int:
    """A third of the size, if that is a power of two from 16 on; else ValueError.

    A tile's width is a power of two. GPT-2's widths of 768 and 3072 are three of them, and no lane stands idle.
    """
    third = size // 3
    if size % 3 or third < 16 or third & (third - 1):
        raise ValueError(f"{name} is {size}; this kernel needs three times a power of two, as 48, 96 … 768, 1536")
    return third


def same_shape(**tensors) -> None:
    """ValueError unless all the tensors are contiguous and of the first one's shape."""
    first, *_ = tensors.values()
    for name, tensor in tensors.items():
        if tensor.shape != first.shape or not tensor.is_contiguous():
            raise ValueError(f"{name} is {list(tensor.shape)}; it must be contiguous, of shape {list(first.shape)}")
