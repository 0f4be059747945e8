"""A hand-written Triton kernel on CPU tensors: Triton's interpreter runs it, in a child, program after program."""

import inspect
from typing import Any

from torch import Tensor

from ..doors import door
from . import travel
from .assembly import Config, assemble
from .chips import chip as chip_named
from .client import answer_of
from .errors import UnsupportedKernel, VirtualGPUError
from .kernels import HandWritten, hand_written

PROGRAMS = 10_000
"""More than this would take the interpreter minutes."""


@door
def interpret_kernel(
    kernel: Any, grid: int | tuple[int, ...], *args: Any, timeout_s: float = 600, **constants: Any
) -> tuple[Any, ...]:
    """``kernel[grid](*args, **constants)`` in Triton's interpreter; returns the arguments as the kernel left them, and
    after them tensors that were handed over by name.

    ``kernel`` is a ``@triton.jit`` function, a notebook's too. The caller's own tensors are not changed. Every program
    runs by itself, one after the other: a race between programs is not seen, and nothing is said about time. Whether an
    H200 would take the kernel at all, Triton's compiler says first, where tensors and numbers are all that it is given.
    Raises TypeError for what is no kernel, ValueError for a grid that is too large, VirtualGPUError for a kernel that
    does not compile, or fails, with the compiler's or the interpreter's reason.

    What is no kernel is refused at once:

    >>> from compile_lab.virtual_gpu import interpret_kernel
    >>> interpret_kernel(len, 4)
    Traceback (most recent call last):
        ...
    TypeError: this asks for a kernel, an inductor.Kernel or a @triton.jit function, not builtin_function_or_method
    """
    made = hand_written(kernel)
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    programs = 1
    for size in sizes:
        programs *= size
    if not 1 <= programs <= PROGRAMS:
        raise ValueError(f"grid is {grid!r}, {programs:,} programs; the interpreter is given 1 to {PROGRAMS:,}")
    _compile(kernel, args, constants)
    body = travel.packed((made, sizes, args, constants), values=True)
    try:
        return travel.loads(answer_of("interpret", "launch", chip_named("H200"), body, timeout_s, config={}))
    except VirtualGPUError as error:
        if "without an answer" not in str(error):
            raise
        raise VirtualGPUError(f"{error} Perhaps a load or a store went beyond a tensor: is a mask missing?") from None


def _compile(kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Raises what `assemble` does. What is no tensor and no number has no type there: the interpreter alone sees it."""
    from triton.runtime.jit import mangle_type

    fixed, names = _constants(kernel.fn), inspect.signature(kernel.fn).parameters
    defaults = {name: each.default for name, each in names.items() if each.default is not each.empty}
    given = {**defaults, **dict(zip(names, args, strict=False)), **constants}
    plain = {name: given[name] for name in names if name in given and name not in fixed}
    if not all(isinstance(value, Tensor | bool | int | float) for value in plain.values()):
        return
    types = {name: value if type(value) is int else mangle_type(value) for name, value in plain.items()}
    blocks = {name: given[name] for name in fixed if name in given}
    warps, stages = constants.get("num_warps", 4), constants.get("num_stages", 3)
    assemble(kernel, "H200", Config(blocks, warps, stages), arguments=types)


def _constants(function: Any) -> list[str]:
    """The parameters that are ``tl.constexpr``."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if "constexpr" in str(each.annotation)]


def launched(body: bytes) -> tuple[Any, ...]:
    """The child's side."""
    from . import arithmetic
    from .libdevice import libdevice

    made, grid, args, constants = travel.unpacked(body)
    assert isinstance(made, HandWritten)
    arithmetic.install()
    arithmetic.saturate_integers()
    kernel = made.made()
    args = tuple(arg.detach() if isinstance(arg, Tensor) else arg for arg in args)
    fixed = _constants(kernel.fn)
    named = dict(zip(inspect.signature(kernel.fn).parameters, args, strict=False)) | constants
    names = kernel.fn.__globals__
    names |= {name: libdevice for name, value in names.items() if getattr(value, "__name__", "").endswith(".libdevice")}
    handed = {name: value if name in fixed else arithmetic.argument(value) for name, value in named.items()}
    try:
        kernel[grid](**handed)
    except Exception as error:
        raise UnsupportedKernel(f"{made.name} failed in Triton's interpreter: {error.__cause__ or error}") from None
    return *args, *(value for value in constants.values() if isinstance(value, Tensor))
