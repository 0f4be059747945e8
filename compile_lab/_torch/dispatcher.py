"""Private names of torch's dispatcher, autograd and profiler."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ..doors import door

DisableTorchFunction = torch._C.DisableTorchFunction
"""While a block runs, torch's functions are not handed to a TorchFunctionMode or to ``__torch_function__``."""

current_autograd_node = torch._C._current_autograd_node
"""The autograd node that this thread is running, or None outside of a backward."""


def autograd_sequence_nr() -> int:
    """The number that this thread's next autograd node will get; a node's own is its ``_sequence_nr()``."""
    return torch.autograd._get_sequence_nr()


scaled_mm = torch._scaled_mm
"""The matmul of two fp8 matrices, the second stored column by column, with a scale for each; CPU and GPU."""


def operator_names(namespace: str) -> list[str]:
    """Every operator known to the dispatcher in a namespace, with its overload: ``aten::add.Tensor``, sorted."""
    return sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{namespace}::"))


def operator_table(op: str) -> dict[str, str]:
    """The dispatcher's table for one operator: for each dispatch key, what stands there and in brackets why."""
    return dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(op).splitlines())


def is_composite(op: Any) -> bool:
    """True for an operator overload that is made of others: what it returns may be a view or a copy."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


@door
def fake_tensors(allow_real: bool = False) -> AbstractContextManager[Any]:
    """While the block runs, new tensors have a shape, a dtype and a device, and no memory.

    With ``allow_real`` an operation may also read real tensors, of which it then takes the shape.

    >>> import torch
    >>> from compile_lab.memory import fake_tensors
    >>> with fake_tensors():
    ...     (torch.empty(10**6, 10**6) @ torch.empty(10**6, 4)).shape
    torch.Size([1000000, 4])
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=allow_real)


def among_fakes(tensors: Iterable[Any]) -> AbstractContextManager[Any]:
    """While the block runs, new tensors are as fake as those that are among these; without any, nothing is changed."""
    from torch._subclasses.fake_tensor import FakeTensor

    return next((each.fake_mode for each in tensors if isinstance(each, FakeTensor)), contextlib.nullcontext())


def without_fakes() -> AbstractContextManager[Any]:
    """While the block runs, new tensors are real ones, even under ``fake_tensors``."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


def profiler_events(profiler: torch.profiler.profile) -> list[Any]:
    """The roots of the tree of what a profiler saw, once it has stopped; with ``profile_memory``, allocations too."""
    return profiler.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]  # None before it runs


@contextlib.contextmanager
def cuda_history() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The caching allocator's history while the block runs: a function that gives its entries so far, in order.

    Each is a dict with ``action`` ("alloc", "free_requested", …), ``addr``, ``size`` in bytes, and Python ``frames``.
    """
    memory, device = torch.cuda.memory, torch.cuda.current_device()
    memory._record_memory_history(enabled="all", stacks="python", max_entries=1_000_000)
    try:
        yield lambda: memory._snapshot()["device_traces"][device]
    finally:
        memory._record_memory_history(enabled=None)


def dispatch_mode_is_active() -> bool:
    """True inside a TorchDispatchMode, under which torch.compile silently runs eager."""
    return _get_current_dispatch_mode() is not None
