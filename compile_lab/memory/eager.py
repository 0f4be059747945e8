"""Lifetimes of an eager step, seen as it runs: on real tensors, or on fake ones, which have sizes and no memory.

A dispatch mode sees the results of every operation below autograd; a finalizer on each buffer tells when Python and
autograd have both let go of it. What a kernel allocates and frees inside itself is not seen here; `memory.measured`
names it. A subclass that wraps tensors is seen as those that it wraps: they have the memory. A storage that is given
another size, as FSDP gives to what it gathers, is a new buffer in place of the old one.
"""

import itertools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.dispatcher import autograd_sequence_nr, current_autograd_node
from ..doors import door
from ..source import Line, is_users, users_line
from ..tensors import is_fake, is_hollow, is_wrapper, memories, storage_nbytes, storage_of, tensors
from .ledger import BEFORE, Ledger, Lifetimes, Tensor


@door
def eager_lifetimes(
    step: Callable[[], Any], model: torch.nn.Module | None = None, *optimizers: torch.optim.Optimizer | None
) -> Lifetimes:
    """The lifetimes of every buffer while ``step()`` runs once, eagerly: forward, backward, optimizer, or any of them.

    With ``model`` and ``optimizers``, parameters, gradients and optimizer state are known as what they are; else a
    tensor with ``requires_grad`` is a parameter. Made under ``fake_tensors()``, model and inputs take no memory, and a
    step that would not fit can be looked at. The step's result is held to the end. ``step`` has the effects that it
    has: gradients accumulate, an optimizer moves its parameters.

    Bytes are those of real memory: of a DTensor this rank's part, of a subclass that wraps tensors those of what it
    wraps, of a storage that changes its size the size that it has.

    Raises TypeError for what cannot be called, ValueError for a step without operations and for a tensor that wraps
    others without naming them in ``__tensor_flatten__``, and what ``step`` raises. Compiled code that ``step`` calls
    runs eagerly.

    >>> import torch
    >>> from compile_lab.memory import eager_lifetimes
    >>> x = torch.ones(1000, requires_grad=True)
    >>> eager_lifetimes(lambda: x.exp().sin().sum().backward()).peak_by_kind()
    {'activation': 4004, 'temporary': 8004}
    """
    watch = _StorageWatch()
    watch.know(model, optimizers)
    with torch.compiler.set_stance("force_eager"), watch.optimizer_steps(), watch.resizes(), watch:
        result = step()
    watch.know(model, optimizers)
    lifetimes = watch.lifetimes()
    del result
    return lifetimes


_Held = tuple[torch.UntypedStorage, Tensor]


class _StorageWatch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.keys: dict[int, Hashable] = {}  # an address may be used again once its buffer is freed
        self.numbers = itertools.count()
        self.line_of: dict[int, Line | None] = {}
        self.in_optimizer = self.closed = self.handed_on = self.in_real = False

    def know(self, model: torch.nn.Module | None, optimizers: Sequence[torch.optim.Optimizer | None]) -> None:
        """Name what belongs to a model and its optimizers: there before the step, or made by it."""
        named = list(model.named_parameters()) + list(model.named_buffers()) if model else []
        for name, tensor in named:
            self._is(tensor, "parameter", name)
            if tensor.grad is not None:
                self._is(tensor.grad, "gradient", f"{name}.grad")
        names = {parameter: name for name, parameter in named}
        states = [each.state for each in optimizers if each]
        for parameter, state in (pair for each in states for pair in each.items()):
            for what, value in state.items():
                if isinstance(value, torch.Tensor):
                    self._is(value, "optimizer state", f"{names.get(parameter, 'parameter')}.{what}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handed_on, self.handed_on = self.handed_on, False
        if handed_on:  # it is the wrappers' turn: what they run comes back here
            return NotImplemented
        kwargs, wrapped = kwargs or {}, any(map(is_wrapper, types))
        if func is torch.ops.aten.lift_fresh.default:  # torch.tensor(…): the argument was made a moment ago
            self._operation(func, None, {storage_of(tensor): tensor for tensor in self._memories(args)})
        for tensor in tensors((args, kwargs)):
            kind = "parameter" if tensor.requires_grad and tensor.is_leaf else "input"
            for part in self._memories(tensor):
                if self._key(part) is None:
                    self._is(part, kind, "input")
        out = self._inside(func, args, kwargs) if wrapped else func(*args, **kwargs)
        node, seen = current_autograd_node(), self._memories((out, args, kwargs))
        changed = {storage_of(each): each for each in seen if self._is_new(each)}
        if changed or (func._schema.is_mutable and seen and not wrapped):
            self._operation(func, node, changed)
        if node is not None and node.name().endswith("AccumulateGrad"):
            for tensor in self._memories(out):
                self._is(tensor, "gradient", "")
        return out

    def _inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation on tensors that wrap others, with what it runs on those seen, too.

        Not if they are fake: DTensor tries each operation on fake tensors of the whole's size, to learn its shapes, and
        these could not be told from the step's own.
        """
        if any(map(is_fake, memories((args, kwargs)))):
            return func(*args, **kwargs)
        before = self.in_real
        with self:
            self.handed_on = self.in_real = True
            try:
                return func(*args, **kwargs)
            finally:
                self.handed_on, self.in_real = False, before

    def _memories(self, value: Any) -> list[torch.Tensor]:
        """The tensors in a value as those that have memory. ValueError for one that does not say whose it shows."""
        parts = [part for part in memories(value) if not (self.in_real and is_fake(part))]
        for hollow in filter(is_hollow, parts):
            raise ValueError(
                f"{type(hollow).__name__} is a tensor that wraps others and does not say which, so its memory cannot "
                "be computed: give it __tensor_flatten__ and __tensor_unflatten__, or look at the step without it"
            )
        return parts

    def _is_new(self, tensor: torch.Tensor) -> bool:
        """True for a buffer that was not there, or had another size."""
        key = self._key(tensor)
        return key is None or self.ledger.known(key).nbytes != storage_nbytes(tensor)

    def _operation(self, func: Any, node: Any, changed: dict[int, torch.Tensor]) -> None:
        name, source = str(func.overloadpacket), self._source(node)
        short = name.partition(".")[2]
        buffers = {}
        for storage, tensor in changed.items():
            buffer = _buffer(tensor, short, name, "temporary", source)
            if (old := self.keys.get(storage)) is not None:
                known = self.ledger.known(old)
                buffer = replace(buffer, name=known.name, kind=known.kind)
            buffers[storage] = tensor.untyped_storage(), buffer
        self._begin(short, name, self._phase(node), source, buffers)

    def _begin(self, short: str, name: str, phase: str, source: Line | None, buffers: dict[int, _Held]) -> None:
        """An operation begins, in which these buffers come, each in the place of one that its storage had, if any."""
        olds = [self.keys[storage] for storage in buffers if storage in self.keys]
        made = {self._new_key(storage): buffer for storage, buffer in buffers.values()}
        self.ledger.operation(short, name, phase, source, made)
        for old in olds:
            self.ledger.free(old)

    def _phase(self, node: Any) -> str:
        in_backward = node is not None or _begins_backward(sys._getframe(1))
        phase = "optimizer" if self.in_optimizer else "backward" if in_backward else "forward"
        between = phase == "forward" and self.ledger.phase != "forward"
        return self.ledger.phase if between else phase  # backward and optimizer: such as clipping the gradients

    def _source(self, node: Any) -> Line | None:
        """The user's line; in the backward, the forward line whose gradient the node computes."""
        line = self._line(node)
        if node is None and torch.is_grad_enabled():
            self.line_of[autograd_sequence_nr() - 1] = line
        return line

    def _line(self, node: Any) -> Line | None:
        return users_line(sys._getframe(1), __file__) if node is None else self.line_of.get(node._sequence_nr())

    def _key(self, tensor: torch.Tensor) -> Hashable | None:
        return self.keys.get(storage_of(tensor))

    def _new_key(self, storage: torch.UntypedStorage) -> Hashable:
        key = next(self.numbers)
        if storage._cdata not in self.keys:
            weakref.finalize(storage, self._freed, storage._cdata)
        self.keys[storage._cdata] = key
        return key

    def _freed(self, address: int) -> None:
        if not self.closed:
            self.ledger.free(self.keys.pop(address))

    def _is(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        for part in self._memories(tensor):
            if (key := self._key(part)) is None:
                self.ledger.resident(self._new_key(part.untyped_storage()), _buffer(part, name, "input", kind, None))
            else:
                self.ledger.called(key, kind, name)

    @contextmanager
    def resizes(self) -> Iterator[None]:
        """Note, while the block runs, when Python gives a storage another size: no operation tells of it."""
        resize = torch.UntypedStorage.resize_

        def resized(storage: torch.UntypedStorage, size: int) -> Any:
            if storage._cdata not in self.keys:
                self.ledger.resident(self._new_key(storage), _unseen(storage))
            result = resize(storage, size)
            self._resized(storage)
            return result

        with mock.patch.object(torch.UntypedStorage, "resize_", resized):
            yield

    def _resized(self, storage: torch.UntypedStorage) -> None:
        known, node = self.ledger.known(self.keys[storage._cdata]), current_autograd_node()
        if known.nbytes != storage.nbytes():
            source = self._line(node)
            buffer = replace(known, op="UntypedStorage.resize_", nbytes=storage.nbytes(), source=source)
            self._begin("resize_", buffer.op, self._phase(node), source, {storage._cdata: (storage, buffer)})

    @contextmanager
    def optimizer_steps(self) -> Iterator[None]:
        """Note, while the block runs, when an optimizer is at work."""

        def begin(*_: Any) -> None:
            self.in_optimizer = True

        def end(*_: Any) -> None:
            self.in_optimizer = False

        with register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end):
            yield

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


def _unseen(storage: torch.UntypedStorage) -> Tensor:
    """Of a storage whose tensor no operation has had yet."""
    return Tensor("input", "input", "input", (storage.nbytes(),), "uint8", storage.nbytes(), BEFORE, BEFORE, None)


def _buffer(tensor: torch.Tensor, name: str, op: str, kind: str, source: Line | None) -> Tensor:
    nbytes, dtype = storage_nbytes(tensor), str(tensor.dtype).removeprefix("torch.")
    return Tensor(name, op, kind, tuple(tensor.shape), dtype, nbytes, BEFORE, BEFORE, source)
