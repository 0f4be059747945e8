"""Lifetimes read off the Python that Inductor wrote around its kernels: for a CPU, a GPU, or one that is not here.

That wrapper asks for every buffer, hands buffers on (``buf2 = buf1; del buf1``) and lets go of them, line by line. So
it is followed name by name, and nothing is run. What a library allocates inside a call is not in it.
"""

from collections import Counter
from dataclasses import replace

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
    the forward is an "input" here: the code does not tell parameters from them, nor does it tell whether a gradient is
    copied when it is accumulated: none is, here. Raises ValueError for code of several graphs, and for code of which a
    part is missing.
    """
    if code.trouble:
        raise ValueError(f"this code is not complete ({code.trouble[0]}), so its lifetimes cannot be told")
    directions = [graph.direction for graph in code.graphs]
    if directions not in (["inference"], ["forward", "backward"]):
        raise ValueError(
            f"this code has {len(directions)} graphs ({', '.join(directions)}): lifetimes are told of one forward and "
            "its backward. Where the function broke, compile_lab.dynamo.trace says why"
        )
    ledger = Ledger()
    forward = _WrapperRun(ledger, code.graphs[0], Counter())
    forward.take_inputs()
    forward.run()
    if len(code.graphs) > 1:
        backward = _WrapperRun(ledger, code.graphs[1], forward.holders)
        backward.take_saved(forward.leave(backward.saved))
        backward.run()
        backward.gradients()
    return ledger.lifetimes()


class _WrapperRun:
    """One call of a wrapper. A buffer is freed when no name stands for it any more."""

    def __init__(self, ledger: Ledger, graph: InductorGraph, holders: Counter[Key]) -> None:
        self.ledger, self.graph, self.holders = ledger, graph, holders
        self.buffers = {buffer.name: buffer for buffer in graph.buffers}
        self.wrapper = Wrapper.of(graph.wrapper)
        self.sources = {kernel.call.strip(): kernel.lines for kernel in graph.kernels if kernel.lines}
        self.names: dict[str, Key | None] = {}
        self.asked: dict[Key, Tensor] = {}
        self.returned: list[Key | None] = []
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
            made = {key: _tensor(self.buffers[name], "aten.ones_like")}
            self.ledger.operation(name, "aten.ones_like", "backward", None, made)
            self._hold(key)
            self._hold(key)

    def run(self) -> None:
        """Every statement in order."""
        for statement in self.wrapper.statements:
            match statement:
                case Allocated(name):
                    self._ask(name, self.buffers.get(name) or _workspace(statement))
                case Taken(name, old, ends) if key := self.names.get(old):
                    self._hold(key)
                    self._drop(self.names.get(name))
                    self.names[name] = key
                    if ends:
                        self._drop(self.names.pop(old))
                case WrapperCall(op, _, results, line):
                    for name in results:
                        self._ask(name, self.buffers.get(name))
                    if self.asked or not results:
                        self._operation(op, next(iter(self.sources.get(line, ())), None))
                case Freed(name):
                    self._drop(self.names.pop(name, None))
                case Returned(names):
                    self.returned = [name and self.names.get(name) for name in names]

    def leave(self, saved: list[str]) -> list[Key | None]:
        """Return from a forward: the caller keeps its outputs; what is ``saved`` changes hands."""
        for key in self.returned:
            self._hold(key)
        for key in self.names.values():
            self._drop(key)
        return self.returned[len(self.returned) - len(saved) :]

    def gradients(self) -> None:
        """Return from a backward: each result becomes the gradient of an input."""
        for key in self.returned:
            self._hold(key)
            if key is not None and not self.ledger.is_resident(key):
                self.ledger.called(key, "gradient")
        for key in [*self.names.values(), *map(self._key, self.tangents)]:
            self._drop(key)

    def _ask(self, name: str, buffer: Buffer | None) -> None:
        """A buffer is asked for; what makes it is the operation that comes next."""
        if buffer:
            self.names[name] = key = self._key(name)
            self.asked[key] = _tensor(buffer)
            self._hold(key)

    def _operation(self, name: str, source: Line | None) -> None:
        """An operation begins, and what was asked for since the last one is there."""
        made = {key: replace(each, op=name, source=source) for key, each in self.asked.items()}
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


def _tensor(buffer: Buffer, op: str = "", kind: str = "temporary") -> Tensor:
    return Tensor(buffer.name, op, kind, buffer.shape, buffer.dtype, buffer.nbytes, BEFORE, BEFORE, None)


def _workspace(asked: Allocated) -> Buffer | None:
    """Memory that a kernel needs for itself: no node's result, so only its allocation says how large it is."""
    sizes = tuple(size for size in asked.shape if isinstance(size, int))
    return Buffer(asked.name, sizes, asked.dtype, asked.nbytes) if asked.nbytes is not None else None
