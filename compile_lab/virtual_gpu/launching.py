"""A hand-written Triton kernel on CPU tensors: Triton's interpreter runs it, in a child, program after program."""

from typing import Any

import torch
from torch import Tensor

from ..doors import door
from . import travel
from .chips import chip as chip_named
from .client import asked
from .errors import UnsupportedKernel
from .kernels import HandWritten, hand_written

PROGRAMS = 10_000
"""More than this would take the interpreter minutes."""


@door
def interpret_kernel(
    kernel: Any, grid: int | tuple[int, ...], *args: Any, timeout_s: float = 600, **constants: Any
) -> tuple[Any, ...]:
    """``kernel[grid](*args, **constants)`` in Triton's interpreter; returns the arguments as the kernel left them.

    ``kernel`` is a ``@triton.jit`` function, a notebook's too. The caller's own tensors are not changed. Every program
    runs by itself, one after the other: a race between programs is not seen, and nothing is said about time.
    Raises TypeError for what is no kernel, ValueError for a grid that is too large, VirtualGPUError for a kernel that
    fails, with the interpreter's reason.

    What is no kernel is refused at once:

    >>> from compile_lab.virtual_gpu import interpret_kernel
    >>> interpret_kernel(len, 4)
    Traceback (most recent call last):
        ...
    TypeError: this asks for an inductor.Kernel or a @triton.jit function, not builtin_function_or_method
    """
    made = hand_written(kernel)
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    programs = 1
    for size in sizes:
        programs *= size
    if not 1 <= programs <= PROGRAMS:
        raise ValueError(f"grid is {grid!r}, {programs:,} programs; the interpreter is given 1 to {PROGRAMS:,}")
    body = travel.packed((made, sizes, args, constants), values=True)
    return travel.loads(asked("interpret", "launch", chip_named("H200"), body, timeout_s, config={}))


def launched(body: bytes) -> tuple[Any, ...]:
    """The child's side."""
    made, grid, args, constants = travel.unpacked(body)
    assert isinstance(made, HandWritten)
    args = tuple(arg.detach() if isinstance(arg, Tensor) else arg for arg in args)
    if "tl.dot" in str(made) and any(isinstance(arg, Tensor) and arg.dtype == torch.bfloat16 for arg in args):
        raise UnsupportedKernel(
            f"{made.name} has a tl.dot and is given bf16, of which Triton's interpreter multiplies the bit patterns: "
            "give it float32"
        )
    try:
        made.made()[grid](*args, **constants)
    except Exception as error:
        raise UnsupportedKernel(f"{made.name} failed in Triton's interpreter: {error.__cause__ or error}") from None
    return args
