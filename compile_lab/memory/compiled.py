"""Lifetimes read off the Python that Inductor wrote around its kernels: for a CPU, a GPU, or one that is not here.

That wrapper asks for every buffer, hands buffers on (``buf2 = buf1; del buf1``) and lets go of them, line by line. So
it is followed name by name, and nothing is run. What a library allocates inside a call is not in it.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch

from ..eager.operators import is_view
from ..inductor.generated import GeneratedCode
from ..inductor.records import Buffer, InductorGraph
from ..inductor.wrapper import Allocated, Freed, Returned, Taken, Wrapper, WrapperCall
from ..source import Line
from .ledger import BEFORE, Ledger, Lifetimes, Tensor

Key = tuple[str, str]
"""The graph's direction and the name under which its wrapper made the buffer."""


def compiled_lifetimes(code: GeneratedCode) -> Lifetimes:
    """One call of the compiled forward and, if there is one, of its backward, until the gradients are there.

    The outputs are held to the end, as the caller of a loss does; no parameter has a gradient before. Every argument of
    the forward is an "input" here, for the code does not tell parameters from them, and each gradient is accumulated as
    autograd does: it is copied if it lies otherwise than its parameter, or is another one's, too. Raises ValueError for
    code of several graphs, and for code of which a part is missing or not known here.
    """
    if code.trouble:
        raise ValueError(f"this code is not complete ({code.trouble[0]}), so its lifetimes cannot be computed")
    if code.breaks:
        raise ValueError(
            f"the function broke at {code.breaks[0].place}: {_ONE} What Python runs between its graphs is in neither"
        )
    directions = [graph.direction for graph in code.graphs]
    if directions not in (["inference"], ["forward", "backward"]):
        raise ValueError(
            f"this code has {len(directions)} graphs ({', '.join(directions)}): {_ONE} Where the function broke, "
            "compile_lab.dynamo.trace says why"
        )
    ledger = Ledger()
    forward = _WrapperRun(ledger, code.graphs[0], Counter())
    forward.take_inputs()
    forward.run()
    if len(code.graphs) > 1:
        backward = _WrapperRun(ledger, code.graphs[1], forward.holders)
        backward.take_saved(forward.leave(backward.saved))
        backward.run()
        backward.gradients([forward.buffers.get(name) for name in forward.wrapper.arguments])
    return ledger.lifetimes()


class _WrapperRun:
    """One call of a wrapper. A buffer is freed when no name stands for it any more."""

    def __init__(self, ledger: Ledger, graph: InductorGraph, holders: Counter[Key]) -> None:
        self.ledger, self.graph, self.holders = ledger, graph, holders
        self.buffers = {buffer.name: buffer for buffer in graph.buffers}
        self.wrapper = Wrapper.of(graph.wrapper)
        # What an operation of torch's own returns has no size of its own: it is handed on to a name that has one.
        given_back = {name for call in self.wrapper.calls for name in call.results}
        for each in self.wrapper.statements:
            if isinstance(each, Taken) and each.old in given_back and each.name in self.buffers:
                self.buffers.setdefault(each.old, self.buffers[each.name])
        self.members: dict[str, list[str]] = {}
        for buffer in graph.buffers:
            self.members.setdefault(buffer.of, []).append(buffer.name)
        self.sources = {kernel.call.strip(): kernel.lines for kernel in graph.kernels if kernel.lines}
        self.unused: dict[str, list[str]] = {}
        self.names: dict[str, Key | None] = {}
        self.asked: dict[Key, Tensor] = {}
        self.returned: list[Key | None] = []
        self.result = Returned(())
        # Symbolic sizes are arguments too, and no tensors.
        self.arguments = [name for name in self.wrapper.arguments if name in self.buffers]
        self.tangents = [name for name in self.arguments if name.startswith("tangents")]

    @property
    def saved(self) -> list[str]:
        """The arguments of a backward that the forward saved, in order."""
        return [name for name in self.arguments if name not in self.tangents]

    def take_inputs(self) -> None:
        """Called with parameters and inputs, which somebody else keeps."""
        for name in self.arguments:
            self.names[name] = key = self._key(name)
            self.ledger.resident(key, _tensor(self.buffers[name], "input", "input"))

    def take_saved(self, keys: list[Key | None]) -> None:
        """Called with what the forward saved, which nobody else holds, and with tangents, which their maker holds."""
        self.names = dict(zip(self.saved, keys, strict=True))
        for name in self.tangents:
            self.names[name] = key = self._key(name)
            made: dict[Hashable, Tensor] = {key: _ones_like(self.buffers[name])}
            self.ledger.operation(name, "aten.ones_like", "backward", None, made)
            self._hold(key)
            self._hold(key)

    def run(self) -> None:
        """Every statement in order."""
        for statement in self.wrapper.statements:
            match statement:
                case Allocated(name):
                    self._ask(name, self.buffers.get(name) or _workspace(statement))
                case Taken(name, old, ends):
                    self._take(name, old)
                    if ends:
                        self._drop(self.names.pop(old, None))
                case WrapperCall(op, [given, *_], [name], line) if _is_its_argument(line):
                    self._take(name, given)
                case WrapperCall(op, _, results, line):
                    for name in results:
                        self._ask(name, self.buffers.get(name))
                    if (whole := line.partition(" = ")[0]) not in results:
                        self.unused[whole] = sorted({*self.members.get(whole, ())} - {*results})
                        for name in self.unused[whole]:  # made with the others, and gone when the tuple is
                            self._ask(name, self.buffers[name])
                    if self.asked or not results:
                        self._operation(op, next(iter(self.sources.get(line, ())), None))
                case Freed(name):
                    for each in (name, *self.unused.pop(name, ())):
                        self._drop(self.names.pop(each, None))
                case Returned(names):
                    self.result = statement
                    self.returned = [self._known(name) if name else None for name in names]

    def leave(self, saved: list[str]) -> list[Key | None]:
        """Return from a forward: the caller keeps its outputs; what is ``saved`` changes hands."""
        for key in self.returned:
            self._hold(key)
        for key in self.names.values():
            self._drop(key)
        return self.returned[len(self.returned) - len(saved) :]

    def gradients(self, inputs: Sequence[Buffer | None]) -> None:
        """Return from a backward: one after the other, each result becomes the gradient of an input."""
        for key in self.returned:
            self._hold(key)
            if key is not None and not self.ledger.is_resident(key):
                self.ledger.called(key, "gradient")
        tangents = [self._key(name) for name in self.tangents]
        for key in self.names.values():
            self._drop(key)
        for at, (key, of) in enumerate(zip(self.returned, inputs, strict=False)):
            if key is not None and of is not None and self._is_copied(at, of):
                copy = (*key, f"copy {at}")
                gradient = replace(_tensor(of, "aten.clone", "gradient"), name=f"{key[1]}'s copy")
                self.ledger.operation("aten.clone", "aten.clone", "backward", None, {copy: gradient})
                self._drop(key)
        for key in tangents:  # their maker had them until now
            self._drop(key)

    def _is_copied(self, at: int, of: Buffer) -> bool:
        """Is a gradient copied when it is accumulated? So it is for a parameter that lies otherwise, and where another
        input has the same tensor for its gradient, and will take it."""
        name, strides = self.result.names[at], self.result.strides[at]
        if strides is None and name in self.result.names[at + 1 :]:
            return True
        buffer = self.buffers.get(name or "")
        strides = strides or (buffer.strides if buffer else ())
        if len(strides) != len(of.shape) or not all(isinstance(each, int) for each in strides):
            return False
        wanted = of.strides if _is_dense(of) else contiguous(of.shape)
        return any(one != other for one, other, size in zip(strides, wanted, of.shape, strict=True) if size != 1)

    def _take(self, name: str, old: str) -> None:
        """One more name for the memory of another."""
        if key := self._known(old):
            self._hold(key)
            self._drop(self.names.get(name))
            self.names[name] = key

    def _known(self, name: str) -> Key | None:
        """The memory that a name stands for; None for a number. Raises ValueError for a buffer that nothing made."""
        if name not in self.names and re.fullmatch(r"buf\d+", name):
            raise ValueError(f"{name} is used in this wrapper, and no statement that is known here makes it: {_REPORT}")
        return self.names.get(name)

    def _ask(self, name: str, buffer: Buffer | None) -> None:
        """A buffer is asked for; what makes it is the operation that comes next."""
        if buffer:
            self.names[name] = key = self._key(name)
            self.asked[key] = _tensor(buffer)
            self._hold(key)

    def _operation(self, name: str, source: Line | None) -> None:
        """An operation begins, and what was asked for since the last one is there."""
        made: dict[Hashable, Tensor] = {key: replace(each, op=name, source=source) for key, each in self.asked.items()}
        self.asked = {}
        phase = "backward" if self.graph.direction == "backward" else "forward"
        self.ledger.operation(name, name, phase, source, made)

    def _key(self, name: str) -> Key:
        return self.graph.direction, name

    def _hold(self, key: Key | None) -> None:
        if key is not None:
            self.holders[key] += 1

    def _drop(self, key: Key | None) -> None:
        if key is None or (key in self.ledger and self.ledger.is_resident(key)):
            return
        self.holders[key] -= 1
        if not self.holders[key]:
            if self.asked:  # asked for before this is given back: for a moment, both are there
                self._operation("allocation", None)
            self.ledger.free(key)


def _is_dense(buffer: Buffer) -> bool:
    """Without gaps, and without elements that share a place."""
    return math.prod(buffer.shape) * getattr(torch, buffer.dtype).itemsize == buffer.nbytes


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor whose last index runs fastest."""
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def _is_its_argument(line: str) -> bool:
    """Does a line call an operation of torch's own whose result is its first argument, changed or seen otherwise?"""
    if not (called := _TORCHS_OWN.search(line)):
        return False
    try:
        return called[2].endswith("_") or is_view("{}::{}.{}".format(*called.groups()))
    except AttributeError:  # a reader's own operator, which this process does not have
        return False


_ONE = "lifetimes are computed for one forward and its backward."
_TORCHS_OWN = re.compile(r"= torch\.ops\.(\w+)\.(\w+)\.(\w+)\(")
_REPORT = "so its lifetimes cannot be computed; compile_lab.memory.eager_lifetimes computes those of the eager step"


def _tensor(buffer: Buffer, op: str = "", kind: str = "temporary") -> Tensor:
    return Tensor(buffer.name, op, kind, buffer.shape, buffer.dtype, buffer.nbytes, BEFORE, BEFORE, None)


def _ones_like(buffer: Buffer) -> Tensor:
    """A tangent as its maker makes it: without the gaps that a result has which is a part of other memory."""
    nbytes = math.prod(buffer.shape) * getattr(torch, buffer.dtype).itemsize
    return replace(_tensor(buffer, "aten.ones_like"), nbytes=nbytes)


def _workspace(allocated: Allocated) -> Buffer | None:
    """Memory that a kernel needs for itself: no node's result, so only its allocation says how large it is."""
    sizes = tuple(size for size in allocated.shape if isinstance(size, int))
    return Buffer(allocated.name, sizes, allocated.dtype, allocated.nbytes) if allocated.nbytes is not None else None
