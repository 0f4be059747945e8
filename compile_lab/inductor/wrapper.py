"""The one reader of the wrapper that Inductor generates."""

import ast
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from .records import Buffer


def definitions(wrapper: str) -> dict[str, tuple[str, str]]:
    """The kernels that a wrapper defines: name to (language, source)."""
    found = {}
    for statement in ast.parse(wrapper).body:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("async_compile."):
            continue
        texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        kind = ast.unparse(call.func).removeprefix("async_compile.")
        if texts:
            found[ast.unparse(statement.targets[0])] = ("cpp" if kind.startswith("cpp") else kind, max(texts, key=len))
    return found


def numbered_calls(wrapper: str) -> dict[str, str]:
    """The launches of a wrapper, by the number that torch writes above each: ``name:number`` to the line of code."""
    # Between the two stand further remarks, and for a GPU the line that fetches the stream.
    number = r"^ *# \[Provenance debug handles\] (\S+)\n(?: *(?:#|(?:raw_)?stream\d+ =).*\n)* *(.+)$"
    return {match[1]: match[2] for match in re.finditer(number, wrapper, re.MULTILINE)}


_ALLOCATORS = ("empty_strided_cpu", "empty_strided_cuda")
_NO_LAUNCH = ("assert_size_stride", "assert_alignment", "args.clear", "torch.cuda.set_device")


def _call(wrapper: str) -> tuple[list[str], list[ast.stmt]]:
    """The names of the arguments of a wrapper's ``call``, and its statements, those of a ``with`` among them."""
    for node in ast.walk(ast.parse(wrapper)):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            statements = list(_flat(node.body))
            for statement in statements:
                match statement:
                    case ast.Assign([ast.Tuple(names)], ast.Name("args")):
                        return [ast.unparse(name) for name in names], statements
            return [], statements
    raise ValueError("this wrapper has no function `call`: Inductor wrote it in a way that is not known here")


def _name(call: ast.Call) -> str:
    """A kernel's name; of a call of torch's own, the operation without its overload: ``aten.sort``."""
    name = ast.unparse(call.func).removesuffix(".run")
    return ".".join(name.split(".")[2:4]) if name.startswith("torch.ops.") else name


def _flat(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def _workspace(name: str, call: ast.Call) -> Buffer | None:
    """Memory that a kernel needs for itself: no node's result, so only its call says how large it is."""
    match call:
        case ast.Call(ast.Name(function), [ast.Tuple() as sizes, _, dtype]) if function in _ALLOCATORS:
            shape, kind = ast.literal_eval(sizes), ast.unparse(dtype).removeprefix("torch.")
            return Buffer(name, shape, kind, math.prod(shape) * getattr(torch, kind).itemsize)
    return None


_SUM = re.compile(r"^(\w+) = workspace_\d+\[.*\]\.view\((\d+), (\d+)\)\.(\w+)\(dim=0\)(.*)$")


@dataclass(frozen=True)
class PartialSums:
    """The call that adds the partial results of one column reduction: ``op`` of ``nbytes`` in the workspace.

    ``buffer`` is what it makes, of ``out_nbytes``; ``cast`` says that a second call converts it.
    """

    buffer: str
    op: str
    nbytes: int
    out_nbytes: int
    cast: bool
    line: str


def partial_sums(wrapper: str, call: str) -> tuple[PartialSums, ...]:
    """The calls that follow the launch ``call`` in a wrapper and finish its column reductions."""
    found = []
    lines = iter(line.strip() for line in wrapper.splitlines())
    for line in lines:
        if line == call:
            break
    for line in lines:
        if not (match := _SUM.match(line)):
            break
        buffer, rows, columns, op, rest = match.groups()
        size = torch.float32.itemsize  # of the workspace, whatever the reduced dtype
        found.append(
            PartialSums(buffer, op, int(rows) * int(columns) * size, int(columns) * size, ".to(" in rest, line)
        )
    return tuple(found)


def launch_line(wrapper: str, kernel: str) -> str:
    """The line of a wrapper that launches a kernel which is launched once; empty if there is none."""
    found = re.search(rf"^ *({re.escape(kernel)}\.run\(.*\))$", wrapper, re.MULTILINE)
    return found[1] if found else ""


def generated_kernels(codes: Iterable[str]) -> int:
    """How many calls of kernels that Inductor generated are in the modules it wrote, C++ or Triton."""
    called = re.compile(r"^ +(?:cpp_fused\w*\(|triton_\w+\.run\()", re.MULTILINE)
    return sum(len(called.findall(code)) for code in codes)
