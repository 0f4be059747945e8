"""Lifetimes of an eager step, seen as it runs: on real tensors, or on fake ones, which have sizes and no memory.

A dispatch mode sees the results of every operation below autograd; a finalizer on each buffer tells when Python and
autograd have both let go of it. What a kernel allocates and frees inside itself is not seen here; `memory.measured`
names it.
"""

import itertools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.dispatcher import autograd_sequence_nr, current_autograd_node
from ..doors import door
from ..source import Line, is_users, users_line
from ..tensors import memories, storage_nbytes, storage_of
from .ledger import BEFORE, Ledger, Lifetimes, Tensor


@door
def eager_lifetimes(
    step: Callable[[], Any],
    model: torch.nn.Module | None = None,
    *optimizers: torch.optim.Optimizer | None,
) -> Lifetimes:
    """The lifetimes of every buffer while ``step()`` runs once, eagerly: forward, backward, optimizer, or any of them.

    With ``model`` and ``optimizers``, parameters, gradients and optimizer state are known as what they are; else a
    tensor with ``requires_grad`` is a parameter. Made under ``fake_tensors()``, model and inputs take no memory, and a
    step that would not fit can be looked at. The step's result is held to the end. ``step`` has the effects that it
    has: gradients accumulate, an optimizer moves its parameters.

    Raises TypeError for what cannot be called, ValueError for a step without operations, and what ``step`` raises.
    Compiled code that ``step`` calls runs eagerly.

    >>> import torch
    >>> from compile_lab.memory import eager_lifetimes
    >>> x = torch.ones(1000, requires_grad=True)
    >>> eager_lifetimes(lambda: x.exp().sin().sum().backward()).peak_by_kind()
    {'activation': 4004, 'temporary': 8004}
    """
    watch = _StorageWatch()
    watch.know(model, optimizers)
    with torch.compiler.set_stance("force_eager"), watch.optimizer_steps(), watch:
        result = step()
    watch.know(model, optimizers)
    lifetimes = watch.lifetimes()
    del result
    return lifetimes


class _StorageWatch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.keys: dict[int, Hashable] = {}  # an address may be used again once its buffer is freed
        self.numbers = itertools.count()
        self.line_of: dict[int, Line | None] = {}
        self.in_optimizer = self.closed = False

    def know(self, model: torch.nn.Module | None, optimizers: Sequence[torch.optim.Optimizer | None]) -> None:
        """Name what belongs to a model and its optimizers: there before the step, or made by it."""
        named = list(model.named_parameters()) + list(model.named_buffers()) if model else []
        for name, tensor in named:
            self._is(tensor, "parameter", name)
            for each in memories(tensor.grad):
                self._is(each, "gradient", f"{name}.grad")
        names = {parameter: name for name, parameter in named}
        states = [each.state for each in optimizers if each]
        for parameter, state in (pair for each in states for pair in each.items()):
            for what, value in state.items():
                if isinstance(value, torch.Tensor):
                    self._is(value, "optimizer state", f"{names.get(parameter, 'parameter')}.{what}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.lift_fresh.default:  # torch.tensor(…): the argument was made a moment ago
            self._operation(func, None, {storage_of(tensor): tensor for tensor in args})
        for tensor in memories((args, kwargs)):
            if self._key(tensor) is None:
                self._is(tensor, "parameter" if tensor.requires_grad and tensor.is_leaf else "input", "input")
        out = func(*args, **(kwargs or {}))
        node = current_autograd_node()
        made = {storage_of(tensor): tensor for tensor in memories(out) if self._key(tensor) is None}
        if made or func._schema.is_mutable:
            self._operation(func, node, made)
        if node is not None and node.name().endswith("AccumulateGrad"):
            for tensor in memories(out):
                self._is(tensor, "gradient", "")
        return out

    def _operation(self, func: Any, node: Any, made: dict[int, torch.Tensor]) -> None:
        name = str(func.overloadpacket)
        source = self._source(node)
        buffers: dict[Hashable, Tensor] = {}
        for tensor in made.values():
            buffers[self._new_key(tensor)] = _buffer(tensor, name.partition(".")[2], name, "temporary", source)
        in_backward = node is not None or _begins_backward(sys._getframe(1))
        phase = "optimizer" if self.in_optimizer else "backward" if in_backward else "forward"
        if phase == "forward" and self.ledger.phase != "forward":
            phase = self.ledger.phase  # between backward and optimizer, such as clipping the gradients
        self.ledger.operation(name.partition(".")[2], name, phase, source, buffers)

    def _source(self, node: Any) -> Line | None:
        """The user's line; in the backward, the forward line whose gradient the node computes."""
        if node is not None:
            return self.line_of.get(node._sequence_nr())
        line = users_line(sys._getframe(1), __file__)
        if torch.is_grad_enabled():
            self.line_of[autograd_sequence_nr() - 1] = line
        return line

    def _key(self, tensor: torch.Tensor) -> Hashable | None:
        return self.keys.get(storage_of(tensor))

    def _new_key(self, tensor: torch.Tensor) -> Hashable:
        storage, key = tensor.untyped_storage(), next(self.numbers)
        self.keys[storage._cdata] = key
        weakref.finalize(storage, self._freed, storage._cdata, key)
        return key

    def _freed(self, address: int, key: Hashable) -> None:
        if not self.closed:
            del self.keys[address]
            self.ledger.free(key)

    def _is(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        key = self._key(tensor)
        if key is None:
            self.ledger.resident(self._new_key(tensor), _buffer(tensor, name, "input", kind, None))
        else:
            self.ledger.called(key, kind, name)

    @contextmanager
    def optimizer_steps(self) -> Iterator[None]:
        """Note, while the block runs, when an optimizer is at work."""

        def begin(*_: Any) -> None:
            self.in_optimizer = True

        def end(*_: Any) -> None:
            self.in_optimizer = False

        handles = register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def lifetimes(self) -> Lifetimes:
        self.closed = True
        return self.ledger.lifetimes()


def _begins_backward(frame: FrameType | None) -> bool:
    """True where ``backward()`` makes the gradient of its root: before the engine, in torch's own Python."""
    while frame is not None and (frame.f_code.co_filename == __file__ or not is_users(frame.f_code.co_filename)):
        if frame.f_code.co_name == "_make_grads":
            return True
        frame = frame.f_back
    return False


def _buffer(tensor: torch.Tensor, name: str, op: str, kind: str, source: Line | None) -> Tensor:
    nbytes, dtype = storage_nbytes(tensor), str(tensor.dtype).removeprefix("torch.")
    return Tensor(name, op, kind, tuple(tensor.shape), dtype, nbytes, BEFORE, BEFORE, source)
