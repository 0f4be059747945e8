"""What does the wrapper do that Inductor writes around its kernels? ``Wrapper.of(source)`` reads it, once for all.

The wrapper is Python that asks for buffers, hands them on (``buf1 = buf0; del buf0``), launches kernels, calls
libraries, and returns. It is read as a syntax tree and never run, so it may be for a device that is not here.
"""

import ast
import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest

import torch


@dataclass(frozen=True)
class Allocated:
    """The allocator is asked: ``buf0 = empty_strided_cpu((8, 4), (4, 1), torch.float32)``."""

    name: str
    shape: tuple[int | str, ...]
    """Text where a size is a symbol."""
    dtype: str

    @property
    def nbytes(self) -> int | None:
        """Bytes of its elements; None where a size is a symbol."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        return math.prod(sizes) * getattr(torch, self.dtype).itemsize if len(sizes) == len(self.shape) else None


@dataclass(frozen=True)
class Taken:
    """A name for memory that has one: ``buf1 = reinterpret_tensor(buf0, …); del buf0``, where ``ends`` is true."""

    name: str
    old: str
    ends: bool
    """The old name ends in this line: the buffer is handed on. Otherwise both stand for it."""
    line: str


@dataclass(frozen=True)
class Freed:
    """A name ends: ``del buf0``."""

    name: str


@dataclass(frozen=True)
class WrapperCall:
    """Anything that is called and may launch work; one of the kinds below."""

    op: str
    """A kernel's name; of an operation of torch's own, that without its overload: ``aten.sort``."""
    arguments: tuple[str, ...]
    """The names that it is given, in order, ``out=`` included."""
    results: tuple[str, ...]
    """The names it assigns: those of the items where a tuple is taken apart; empty if it writes into ``out=``."""
    line: str
    handle: str
    """The name and number that torch wrote above it, ``triton_poi_fused_0:7``; "" where it wrote none."""


class Launched(WrapperCall):
    """A kernel that Inductor wrote."""


class Called(WrapperCall):
    """A library's kernel, or torch's own."""


class Started(WrapperCall):
    """A collective begins."""

    @property
    def place(self) -> str:
        """The name that a wait for it names: of what it returns, of ``out=``, or of what it changes in place."""
        into = self.arguments[-1] if "out=" in self.line else self.arguments[0]
        return self.results[0] if self.results else into


class Waited(WrapperCall):
    """Collectives have ended when this has: those whose ``place`` is an argument."""


@dataclass(frozen=True)
class Summed(Called):
    """torch's own ``aten.sum`` over the partial results that a kernel left in a workspace, one row each.

    See ``mixed_reductions``; ``cast`` says that a second call converts the result.
    """

    rows: int
    columns: int
    cast: bool

    @property
    def nbytes(self) -> int:
        """Bytes that it reads; a workspace is float32, whatever is reduced."""
        return self.rows * self.out_nbytes

    @property
    def out_nbytes(self) -> int:
        """Bytes that it writes."""
        return self.columns * torch.float32.itemsize


@dataclass(frozen=True)
class Returned:
    """The names that are returned, in order; None for a result that is none."""

    names: tuple[str | None, ...]
    strides: tuple[tuple[int | str, ...] | None, ...] = field(default=(), compare=False)
    """Of each that is shown otherwise than it lies in memory, as ``reinterpret_tensor`` says them."""


Statement = Allocated | Taken | Freed | WrapperCall | Returned


@dataclass(frozen=True)
class Wrapper:
    """One graph's wrapper: the kernels it defines, the arguments of its ``call``, and what that does, in order.

    A part with a function of its own (a partition for CUDA graphs, a branch) is read where it is called; a branch is
    also a graph that Inductor lowers for itself, whose source is that function alone.
    """

    kernels: dict[str, tuple[str, str]]
    """By name: (language, source)."""
    arguments: tuple[str, ...]
    statements: tuple[Statement, ...]

    @classmethod
    @functools.lru_cache(maxsize=8)  # several ask of the same graphs
    def of(cls, source: str) -> "Wrapper":
        """Read the module that Inductor wrote for one graph. Raises ValueError if it is not a Python wrapper."""
        return _WrapperReader(source).wrapper()

    @property
    def calls(self) -> tuple[WrapperCall, ...]:
        """All calls, in order."""
        return tuple(each for each in self.statements if isinstance(each, WrapperCall))

    @property
    def launches(self) -> tuple[Launched, ...]:
        """The launches of generated kernels, in order."""
        return tuple(each for each in self.statements if isinstance(each, Launched))

    @property
    def unwritten(self) -> tuple[str, ...]:
        """The results that nothing can have written: their memory is asked for, and no call is given it.

        One such name is a fault of the compiler (as pytorch#193061). None proves nothing: a call may only read.
        """
        asked, given = set(), set()
        memory: dict[str, str] = {}
        for each in self.statements:
            match each:
                case Allocated(name):
                    asked.add(name)
                case Taken(name, old):
                    memory[name] = memory.get(old, old)
                case WrapperCall():
                    names = (*each.arguments, *each.results, each.op.partition(".")[0])  # of ``buf0.copy_`` the buffer
                    given |= {memory.get(name, name) for name in names}
        results = [name for each in self.statements if isinstance(each, Returned) for name in each.names if name]
        return tuple(name for name in results if memory.get(name, name) in asked - given)

    def line(self, kernel: str, number: int | None) -> str:
        """The line that launches a kernel: by torch's number for the launch, or the first; "" if there is none."""
        numbered = (call for call in self.calls if call.handle == f"{kernel}:{number}")
        first = (call for call in self.launches if call.op == kernel)
        return next((call.line for call in (*numbered, *first)), "")

    def sums_after(self, kernel: str) -> tuple[Summed, ...]:
        """The calls that follow a kernel's launch and finish its column reductions."""
        ops = [call.op for call in self.calls]
        after = self.calls[ops.index(kernel) + 1 :] if kernel in ops else ()
        following = takewhile(lambda call: isinstance(call, Summed), after)
        return tuple(call for call in following if isinstance(call, Summed))


_NO_LAUNCH = re.compile(r"assert_\w+|args\.clear|torch\.cuda\.set_device|get_raw_stream")
_HANDLE = re.compile(r" *# \[Provenance debug handles\] (\S+)$")
_REMARK = re.compile(r" *(?:#|(?:raw_)?stream\d+ =)")  # what stands between a handle and its launch
_SUM = re.compile(r"\w+ = workspace_\d+\[.*\]\.view\((\d+), (\d+)\)\.(\w+)\(dim=0\)(.*)$")
_COLLECTIVE, _WAIT = "_c10d_functional.", "_c10d_functional.wait_tensor"  # or wait_tensors, from torch 2.15 on


class _WrapperReader:
    """One walk of a wrapper's syntax tree."""

    def __init__(self, source: str) -> None:
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            raise ValueError(f"this wrapper is not Python ({error.msg}): {_UNKNOWN}") from error
        self.lines = source.split("\n")
        self.kernels = dict(_definitions(tree.body))
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.items: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            match node:
                # A result beside a state of the random numbers is a member of a member.
                case ast.Assign([ast.Name(name)], ast.Subscript(ast.Name(of) | ast.Subscript(ast.Name(of)))):
                    self.items.setdefault(of, []).append(name)

    def wrapper(self) -> Wrapper:
        main = self.functions.get("call") or next((each for each in self.functions.values() if _is_part(each)), None)
        if main is None:
            raise ValueError(f"this wrapper has no function `call`: {_UNKNOWN}")
        arguments: list[str] = []
        for node in main.body:
            match node:
                case ast.Assign([ast.Tuple(names)], ast.Name("args")):
                    arguments = [ast.unparse(name) for name in names]
        return Wrapper(self.kernels, tuple(arguments), tuple(self._statements(main.body)))

    def _statements(self, body: Sequence[ast.stmt]) -> Iterator[Statement]:
        handed: list[str] = []  # to a part, in the list of the first name; the part frees them itself
        for node, following in zip_longest(body, body[1:]):
            line = self.lines[node.lineno - 1].strip()
            match node:
                case ast.With(body=inner):
                    yield from self._statements(inner)
                case ast.If(body=inner, orelse=other):
                    yield from self._statements([*inner, *other])
                case ast.Assign([ast.Name(name)], value) if old := _shown(value):
                    ends = isinstance(following, ast.Delete) and following.lineno == node.lineno
                    yield Taken(name, old, ends, line)
                case ast.Assign([ast.Name(name)], ast.Call(ast.Name(function), [ast.Tuple(sizes), _, dtype, *_])) if (
                    function.startswith("empty_strided")
                ):
                    yield Allocated(name, tuple(map(_size, sizes)), ast.unparse(dtype).removeprefix("torch."))
                case ast.Assign([ast.Name(name)], ast.List() as given):
                    handed = [name, *_names(given)]
                case ast.Assign(value=ast.Call(function)) if part := self._part(function):
                    yield from (each for each in self._statements(part.body) if not isinstance(each, Returned))
                    handed = handed[:1]  # what the part gives back is freed here
                case ast.Assign(value=ast.Call(function)) | ast.Expr(ast.Call(function)) if _NO_LAUNCH.fullmatch(
                    ast.unparse(function)
                ):
                    pass
                case ast.Assign([target], ast.Call() as call):
                    yield self._call(call, _names(target), node.lineno)
                case ast.Expr(ast.Call() as call):
                    yield self._call(call, [], node.lineno)
                case ast.Delete(targets) if line.startswith("del "):
                    names = [name for target in targets for name in _names(target)]
                    yield from (Freed(name) for name in names if name not in handed)
                case ast.Return(ast.Tuple(results)):
                    yield Returned(tuple(map(_shown, results)), tuple(map(_strides, results)))

    def _part(self, function: ast.expr) -> ast.FunctionDef | None:
        match function:
            case ast.Name(name):
                return self.functions.get(name)
            case ast.Subscript(ast.Attribute(_, "partitions"), ast.Constant(int(number))):
                return self.functions[f"partition_{number}"]
        return None

    def _call(self, call: ast.Call, names: list[str], lineno: int) -> WrapperCall:
        function = ast.unparse(call.func).removesuffix(".run")
        op = ".".join(function.split(".")[2:4]) if function.startswith("torch.ops.") else function
        line = self.lines[lineno - 1].strip()
        results = tuple(item for name in names for item in self.items.get(name, [name]))
        given = op, tuple(_names(call)), results, line, self._handle(lineno)
        if match := _SUM.match(line):
            rows, columns, reduced, rest = match.groups()
            return Summed(f"aten.{reduced}", *given[1:], int(rows), int(columns), ".to(" in rest)
        if op.startswith(_COLLECTIVE):
            return Waited(*given) if op.startswith(_WAIT) else Started(*given)
        return Launched(*given) if op in self.kernels else Called(*given)

    def _handle(self, lineno: int) -> str:
        for at in range(lineno - 2, -1, -1):
            if match := _HANDLE.match(self.lines[at]):
                return match[1]
            if not _REMARK.match(self.lines[at]):
                break
        return ""


_UNKNOWN = "Inductor wrote it in a way that is not known here, as with its option cpp_wrapper"


def _is_part(function: ast.FunctionDef) -> bool:
    """True for what Inductor writes for a branch alone: it takes its arguments apart first, as ``call`` does."""
    match function.body[0]:
        case ast.Assign([ast.Tuple()], ast.Name("args")):
            return True
    return False


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(ast.Name("async_compile"), kind), arguments)):
                texts = [each.value for each in arguments if isinstance(each, ast.Constant)]
                if texts := [text for text in texts if isinstance(text, str)]:
                    yield name, ("cpp" if kind.startswith("cpp") else kind, max(texts, key=len))


def _shown(value: ast.expr) -> str | None:
    """The name whose memory an expression stands for, in its shape or another."""
    match value:
        case ast.Name(name):
            return name
        case ast.Call(ast.Name("reinterpret_tensor" | "copy_if_misaligned"), [ast.Name(name), *_]):
            return name
    return None


def _strides(value: ast.expr) -> tuple[int | str, ...] | None:
    match value:
        case ast.Call(ast.Name("reinterpret_tensor"), [_, _, ast.Tuple(strides), *_]):
            return tuple(map(_size, strides))
    return None


def _names(value: ast.expr) -> list[str]:
    """Names in an expression, in order; of a call those that it is given."""
    match value:
        case ast.Name(name):
            return [name]
        case ast.Call(_, positional, keywords):
            inner = [*positional, *(keyword.value for keyword in keywords)]
        case ast.List(inner) | ast.Tuple(inner):
            pass
        case _:
            return []
    return [name for each in inner for name in _names(each)]


def _size(size: ast.expr) -> int | str:
    return size.value if isinstance(size, ast.Constant) and isinstance(size.value, int | str) else ast.unparse(size)
