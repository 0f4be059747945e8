"""Stand in for every kernel of every operator: each is preceded by a note of which operator and which dispatch key.

Release builds of torch cannot print a call's way through the dispatcher. But the public ``torch.library`` can fetch the
kernel that is registered for an operator and a key, and put another in its place: here one that takes a note, then
calls the first.
"""

import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .._torch.dispatcher import DisableTorchFunction, operator_names, operator_table
from .operators import overload

DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA"}
"""Without "meta": torch 2.13 still calls a Python kernel of that key, in fake tensors, when its library is gone."""
# From the first that a call meets to the last. Keys of features that are off (functorch, tracing, …) fall through.
_ORDER = ("Autocast{}", "Autograd{}", "ADInplaceOrView", "BackendSelect", "{}")
_RANK = {key.format(device): rank for rank, key in enumerate(_ORDER) for device in DEVICE_KEYS.values()}


@dataclass(frozen=True)
class Hop:
    """One kernel that a call passes: the dispatch key it is registered for, and how it came to stand there.

    ``registered`` is torch's own word: "kernel" was written for this key; "autograd kernel" for the autograd of any
    device; "math kernel" consists of other operators, whatever the key (CompositeImplicitAutograd); "default backend
    kernel" likewise, but below autograd (CompositeExplicitAutograd); "backend fallback" serves every operator.
    """

    key: str
    registered: str

    @property
    def is_backend(self) -> bool:
        """True for a device's key: the kernel there computes or calls other operators, and is a call's last hop."""
        return self.key in DEVICE_KEYS.values()

    @property
    def composite(self) -> bool:
        """True where the operator is nothing but other operators: autograd and devices see those, not it."""
        return self.registered == "math kernel"

    def follows(self, other: "Hop") -> bool:
        """True if a call can come to this hop from the other one."""
        return _RANK[self.key] > _RANK[other.key]


_unseen = threading.local()  # now: the calls of this thread are ours, not those of the function that is watched
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
Note = Callable[[str, Hop, Callable[[], Any]], Any]


@contextmanager
def noted_kernels(note: Note, devices: frozenset[str]) -> Iterator[None]:
    """While the block runs, ``note(op, hop, kernel)`` stands in for each kernel of the aten operators on ``devices``.

    It returns what ``kernel()``, the real one with its arguments, returns. It holds for the whole process, all its
    threads included, which meanwhile computes on one core. Half a second of preparation, about twice that at first.
    """
    library = torch.library.Library("aten", "IMPL")
    threads = torch.get_num_threads()
    # A kernel that calls operators from several threads would wait for ever: each of them needs Python for its note,
    # and Python waits for the kernel.
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden: this is what is meant
            for op, hops in _registered(devices):
                # All before the first is replaced: a kernel at one key changes what stands at others by default.
                kernels = [torch.library.get_kernel(op, hop.key) for hop in hops]
                for hop, kernel in zip(hops, kernels, strict=True):
                    noted = functools.partial(_noted, note, op, hop, kernel)
                    library.impl(op.removeprefix("aten::"), noted, hop.key, with_keyset=True)
        yield
    finally:
        library._destroy()
        torch.set_num_threads(threads)


def _noted(note: Note, op: str, hop: Hop, kernel: Any, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
    if getattr(_unseen, "now", False):
        return kernel.call_boxed(keys, *args, **kwargs)
    args = _numbers_as_tensors(op, args)
    return note(op, hop, lambda: kernel.call_boxed(keys, *args, **kwargs))


def _numbers_as_tensors(op: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The 2 of ``x + 2`` is a tensor to the dispatcher and a number to Python: a tensor again, of the type it had."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    at = [place for place in _tensor_places(op) if place < len(args) and type(args[place]) in _NUMBERS]
    if not at or not tensors:
        return args
    converted = list(args)
    _unseen.now = True
    try:
        with DisableTorchFunction():
            for place in at:
                converted[place] = _as_tensor(args[place], tensors[0])
    finally:
        _unseen.now = False
    return tuple(converted)


def _as_tensor(number: Any, operand: torch.Tensor) -> torch.Tensor:
    """A tensor that stands for the number, and has as little to say in the type of the result as that.

    torch marks such a tensor, which Python cannot. Where the mark would make a difference (an integer tensor beside a
    fraction) it gets the result's type at once, and the log lacks its conversion.
    """
    tensor = torch.tensor(number, dtype=_NUMBERS[type(number)])
    right = torch.result_type(operand, number)
    return tensor if torch.result_type(operand, tensor) == right else tensor.to(right)


@functools.cache
def _tensor_places(op: str) -> tuple[int, ...]:
    arguments = overload(op)._schema.arguments
    return tuple(at for at, one in enumerate(arguments) if str(one.type) in ("Tensor", "Optional[Tensor]"))


@functools.cache
def _registered(devices: frozenset[str]) -> tuple[tuple[str, tuple[Hop, ...]], ...]:
    """For each aten operator, the hops at which a call can stop: every key whose kernel does not fall through."""
    keys = {key.format(DEVICE_KEYS[device]) for key in _ORDER for device in devices}
    table = {}
    for op in operator_names("aten"):
        rows = operator_table(op).items()
        table[op] = tuple(
            Hop(key, said.rpartition("[")[2].rstrip("]"))
            for key, said in rows
            if key in keys and not said.startswith("fallthrough")
        )
    return tuple(table.items())
