"""What does a step launch, how many bytes does that move, and what does it write only to read it again?

Two answers of the same form: of eager code, from the operators it dispatches, on tensors without data; of generated
code, from the kernels and buffers of its wrapper. A kernel moves each tensor that it reads or writes once: Inductor's
own estimate for generated code, and a lower bound for eager, where an operator is one kernel unless `_SEVERAL` has it.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.dispatcher import current_autograd_node
from ..doors import door
from ..eager.operators import kind_of
from ..tensors import tensors
from .generated import GeneratedCode
from .records import EXTERN, InductorGraph, Kernel
from .wrapper import Allocated, Returned, Taken, Wrapper

ROLES = ("result", "saved", "intermediate")
_SEVERAL = {"native_layer_norm_backward": (slice(0, 1), slice(1, 3))}
"""Operators that are a GPU kernel for each of these parts of their results (ATen's ``layer_norm_kernel.cu``)."""


@dataclass(frozen=True)
class Launch:
    """An operator of eager code, or a kernel of generated code: ``kind`` is matmul, aten (torch's own) or generated."""

    direction: str
    name: str
    kind: str
    nbytes: int


@dataclass(frozen=True)
class Written:
    """A tensor that was written: ``role`` is result (of its direction), saved (for the backward) or intermediate."""

    direction: str
    name: str
    nbytes: int
    role: str


@dataclass(frozen=True)
class Traffic:
    """Launches and buffers of both directions, in order."""

    launches: tuple[Launch, ...]
    buffers: tuple[Written, ...]

    def of(self, direction: str) -> tuple[Launch, ...]:
        """The launches of the ``forward`` or of the ``backward``."""
        return tuple(launch for launch in self.launches if launch.direction == direction)

    def nbytes(self, direction: str, matmuls: bool = True) -> int:
        """Bytes that the launches of a direction move, with or without its matmuls."""
        return sum(each.nbytes for each in self.of(direction) if matmuls or each.kind != "matmul")

    def in_role(self, role: str, direction: str | None = None) -> tuple[Written, ...]:
        """The buffers of a role, in one direction or both. ValueError for another word."""
        if role not in ROLES:
            raise ValueError(f"role={role!r} is not known; it is one of {', '.join(map(repr, ROLES))}")
        return tuple(each for each in self.buffers if each.role == role and direction in (None, each.direction))


@door
def eager_traffic(fn: Callable[..., Any], *args: Tensor, chip: str | None = None) -> Traffic:
    """What eager code launches for ``fn(*args)`` and its backward. Nothing is computed.

    ``fn`` is a module or function of tensors; only their shapes are used, so large ones (on "meta") cost nothing. With
    ``chip`` ("H200", …) it is what eager code dispatches on that GPU, where torch fuses some more than elsewhere. The
    gradients are those of all parameters and inputs that want one. Views and allocations launch nothing.
    Raises TypeError if ``fn`` cannot be called, and ValueError if nothing in its result requires a gradient.

    >>> import torch
    >>> from compile_lab.inductor import eager_traffic
    >>> traffic = eager_traffic(torch.nn.Linear(4, 4), torch.ones(2, 4))
    >>> [(launch.direction, launch.name, launch.nbytes) for launch in traffic.launches]
    [('forward', 'addmm', 144), ('backward', 'mm', 128), ('backward', 'sum', 48)]
    """
    if chip is not None:
        from .. import virtual_gpu  # starts a child process; most callers need none

        return virtual_gpu.run(chip, _watched, fn, *args)
    if not isinstance(fn, nn.Module):
        return _watched(fn, *map(_shape_of, args))
    return _watched(copy.deepcopy(fn).to("meta"), *map(_shape_of, args))


def computing(call: Callable[[], Any]) -> tuple[str, ...]:
    """The operators that a call dispatches and that compute something, in order. The call runs, once."""
    with _Watching() as watch:
        call()
    return tuple(watch.operators)


def _shape_of(tensor: Tensor) -> Tensor:
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return shape.requires_grad_(tensor.requires_grad)


def _watched(fn: Callable[..., Any], *args: Tensor) -> Traffic:
    with _Watching() as watch:
        outputs = [tensor for tensor in tensors(fn(*args)) if tensor.requires_grad]
        if not outputs:
            raise ValueError("nothing in the result requires a gradient, so there is no backward: give one that does")
        parameters = list(fn.parameters()) if isinstance(fn, nn.Module) else []
        wanted = [tensor for tensor in (*parameters, *args) if tensor.requires_grad]
        made = torch.autograd.grad(outputs, wanted, [torch.empty_like(output) for output in outputs], allow_unused=True)
    return watch.traffic(outputs, tensors(made))


class _Watching(TorchDispatchMode):
    """Notes each operator that computes, and what it reads and writes, by the identity of the memory behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []
        self.launches: list[Launch] = []
        self.made: dict[int, tuple[str, str, int]] = {}
        self.read_in: dict[int, set[str]] = {}
        self.held: list[Tensor] = []  # so that no identity is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        op = func._schema.name + (f".{func._overloadname}" if func._overloadname != "default" else "")
        kind = kind_of(op)
        if kind in ("view", "allocation", "reading") or not op.startswith("aten::"):
            return out
        direction = "backward" if current_autograd_node() is not None else "forward"
        name = op.removeprefix("aten::").partition(".")[0]
        reads, writes = tensors((args, kwargs)), tensors(out)
        self.held += [*reads, *writes]
        for tensor in reads:
            self.read_in.setdefault(_memory(tensor), set()).add(direction)
        for tensor in writes:
            self.made.setdefault(_memory(tensor), (direction, name, _nbytes([tensor])))
        matmul = "matmul" if kind == "matmul" else "aten"
        parts = [tensors(out[part]) for part in _SEVERAL.get(name, ())] or [writes]
        wanted = [part for part in parts if part or not writes]
        self.operators.append(name)
        self.launches += [Launch(direction, name, matmul, _nbytes([*reads, *part])) for part in wanted]
        return out

    def traffic(self, outputs: list[Tensor], gradients: list[Tensor]) -> Traffic:
        results = {_memory(tensor) for tensor in (*outputs, *gradients)}
        buffers = []
        for memory, (direction, name, nbytes) in self.made.items():
            later = direction == "forward" and "backward" in self.read_in.get(memory, ())
            unread = memory not in self.read_in  # an operator's second output that nobody asked for is a result too
            role = "result" if memory in results or (unread and not later) else "saved" if later else "intermediate"
            buffers.append(Written(direction, name, nbytes, role))
        return Traffic(tuple(self.launches), tuple(buffers))


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _nbytes(several: Iterable[Tensor]) -> int:
    """Bytes of these tensors, each part of a memory once; of an expanded tensor, what is really there."""
    parts: dict[int, dict[Any, int]] = {}
    held: dict[int, int] = {}
    for each in several:
        place = (each.storage_offset(), tuple(each.shape), each.stride())
        parts.setdefault(_memory(each), {})[place] = each.nbytes
        held[_memory(each)] = each.untyped_storage().nbytes()
    return sum(min(sum(found.values()), held[memory]) for memory, found in parts.items())


@door
def generated_traffic(code: GeneratedCode) -> Traffic:
    """The same of generated code: its kernels, and the buffers that its wrappers allocate.

    >>> import torch
    >>> from compile_lab.inductor import generated_code, generated_traffic
    >>> traffic = generated_traffic(generated_code(torch.nn.Linear(4, 4, bias=False), torch.ones(2, 4)))
    >>> [(launch.direction, launch.name, launch.nbytes) for launch in traffic.launches]
    [('forward', 'mm', 128), ('backward', 'mm', 128)]
    """
    graphs = [graph for graph in code.graphs if graph.direction != "inference"]
    launches = [launch_of(kernel) for graph in graphs for kernel in graph.kernels]
    return Traffic(tuple(launches), tuple(written for graph in graphs for written in _written(graph)))


def launch_of(kernel: Kernel) -> Launch:
    """A kernel of generated code as a launch."""
    name = kernel.name.removeprefix("extern_kernels.").removeprefix("aten.").partition(".")[0]
    if kernel.language != EXTERN:
        return Launch(kernel.direction, name, "generated", kernel.nbytes)
    return Launch(kernel.direction, name, "matmul" if name in MATMULS else "aten", kernel.nbytes)


MATMULS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm")


def _written(graph: InductorGraph) -> Iterator[Written]:
    wrapper = Wrapper.of(graph.wrapper)
    traced = {buffer.name: buffer.nbytes for buffer in graph.buffers}  # where a size is a symbol
    memory: dict[str | None, str] = {}
    returned: list[str] = []
    for statement in wrapper.statements:
        match statement:
            case Taken(name, old):
                memory[name] = memory.get(old, old)
            case Returned(names):
                returned = [memory.get(name, name) for name in names if name]
    results = returned if graph.direction == "backward" else returned[:1]
    for each in wrapper.statements:
        if isinstance(each, Allocated):
            role = "result" if each.name in results else "saved" if each.name in returned else "intermediate"
            nbytes = traced[each.name] if each.nbytes is None else each.nbytes
            yield Written(graph.direction, each.name, nbytes, role)
