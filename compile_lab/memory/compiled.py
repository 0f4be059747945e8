"""Lifetimes read off the Python that Inductor wrote around its kernels: for a CPU, a GPU, or one that is not here.

That wrapper asks for every buffer, hands buffers on (``buf2 = buf1; del buf1``) and lets go of them, line by line. So
it is followed name by name, and nothing is run. What a library allocates inside a call is not in it.
"""

import ast
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ..inductor.generated import GeneratedCode
from ..inductor.records import Buffer, InductorGraph
from ..inductor.wrapper import _NO_LAUNCH, _call, _name, _workspace
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
    forward = _Wrapper(ledger, code.graphs[0], Counter())
    forward.take_inputs()
    forward.run()
    if len(code.graphs) > 1:
        backward = _Wrapper(ledger, code.graphs[1], forward.holders)
        backward.take_saved(forward.leave(backward.saved))
        backward.run()
        backward.gradients()
    return ledger.lifetimes()


class _Wrapper:
    """The ``call`` of one wrapper. A buffer is freed when no name stands for it any more."""

    def __init__(self, ledger: Ledger, graph: InductorGraph, holders: Counter[Key]) -> None:
        self.ledger, self.graph, self.holders = ledger, graph, holders
        self.buffers = {buffer.name: buffer for buffer in graph.buffers}
        self.arguments, self.statements = _call(graph.wrapper)
        self.lines = graph.wrapper.splitlines()
        self.sources = {kernel.call.strip(): kernel.lines for kernel in graph.kernels if kernel.lines}
        self.names: dict[str, Key | None] = {}
        self.asked: dict[Key, Tensor] = {}
        self.returned: list[Key | None] = []
        self.tangents = [name for name in self.arguments if name.startswith("tangents") and name in self.buffers]

    @property
    def saved(self) -> list[str]:
        """The arguments of a backward that the forward saved, in order; symbolic sizes are no tensors."""
        return [name for name in self.arguments if name in self.buffers and name not in self.tangents]

    def take_inputs(self) -> None:
        """Called with parameters and inputs, which somebody else keeps."""
        for name in self.arguments:
            if buffer := self.buffers.get(name):
                self.names[name] = key = self._key(name)
                self.ledger.resident(key, _tensor(buffer, "input", "input"))

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
        members: dict[str, list[str]] = {}
        for statement in self.statements:
            match statement:
                case ast.Assign([ast.Name(name)], ast.Subscript(ast.Name(of))):
                    members.setdefault(of, []).append(name)
        for statement in self.statements:
            match statement:
                case ast.Delete(targets):
                    for target in targets:
                        self._drop(self.names.pop(ast.unparse(target), None))
                case ast.Return(ast.Tuple(results)):
                    self.returned = [self._shown(result) for result in results]
                case ast.Assign([ast.Name(name)], ast.Call() as call) if not self._shown(call):
                    self._make(name, call, members.get(name, ()), statement)
                case ast.Assign([ast.Name(name)], value) if shown := self._shown(value):
                    self._hold(shown)
                    self._drop(self.names.get(name))
                    self.names[name] = shown
                case ast.Expr(ast.Call() as call) if ast.unparse(call.func) not in _NO_LAUNCH:
                    self._launch(call, statement)

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

    def _make(self, name: str, call: ast.Call, members: Collection[str], statement: ast.stmt) -> None:
        """``name = call(…)``: the allocator is asked, or a library that returns one tensor or several."""
        called = ast.unparse(call.func)
        for each in members or [name]:
            if buffer := self.buffers.get(each) or _workspace(name, call):
                self.names[each] = key = self._key(each)
                self.asked[key] = _tensor(buffer)
                self._hold(key)
        if self.asked and not called.startswith("empty_strided"):
            self._launch(call, statement)

    def _launch(self, call: ast.Call, statement: ast.stmt) -> None:
        """An operation begins, and what was asked for since the last one is there."""
        source = next(iter(self.sources.get(self.lines[statement.lineno - 1].strip(), ())), None)
        self._operation(_name(call), source)

    def _operation(self, name: str, source: Line | None) -> None:
        made = {key: replace(each, op=name, source=source) for key, each in self.asked.items()}
        self.asked = {}
        phase = "backward" if self.graph.direction == "backward" else "forward"
        self.ledger.operation(name, name, phase, source, made)

    def _key(self, name: str) -> Key:
        return self.graph.direction, name

    def _shown(self, value: ast.expr) -> Key | None:
        """The buffer that an expression stands for: a name, or that name's memory in another shape."""
        match value:
            case ast.Name(name):
                return self.names.get(name)
            case ast.Call(ast.Name("reinterpret_tensor" | "copy_if_misaligned"), [ast.Name(name), *_]):
                return self.names.get(name)
        return None

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
