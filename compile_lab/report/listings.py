"""The text of each stage that a line of Python goes through, and which of its lines are the Python line's own.

Pure joins: what is captured and compiled stands in a `Trail`, and here each node, loop nest and kernel is found again
in the text of its stage by its name, each instruction by its line number.
"""

import ast
import dis
import linecache
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType

from ..inductor.records import InductorGraph, Kernel
from ..inductor.view import operations, shortened
from ..source import Line
from ..virtual_gpu.assembly import Assembly
from .line import Followed, Trail

LEFT_OUT = "⋮"


@dataclass(frozen=True)
class Listing:
    """Lines of one stage's text; `lit` are those that belong to the line that is followed, counted from 1."""

    lines: tuple[str, ...]
    lit: tuple[int, ...] = ()

    def around(self, pattern: str, before: int, after: int) -> "Listing":
        """The lines around the first lit one that `pattern` is found in (else around the first lit one)."""
        if not self.lit:
            return Listing(self.lines[: before + after + 1])
        found = next((at for at in self.lit if re.search(pattern, self.lines[at - 1])), self.lit[0])
        first, last = max(1, found - before), min(len(self.lines), found + after)
        return Listing(self.lines[first - 1 : last], tuple(at - first + 1 for at in self.lit if first <= at <= last))

    def shortened(self, context: int = 1) -> "Listing":
        """The lit lines with so many around them; what lies between is one line that says how many are left out."""
        near = {at + step for at in self.lit for step in range(-context, context + 1)}
        lines, lit, left_out = [], [], 0
        for at, text in enumerate((*self.lines, None), 1):
            if text is not None and at not in near:
                left_out += 1
                continue
            if left_out:
                lines.append(f"{LEFT_OUT} {left_out} more")
            left_out = 0
            if text is not None:
                lines.append(text)
                lit += [len(lines)] if at in self.lit else []
        return Listing(tuple(lines), tuple(lit))


def python(line: Line) -> Listing:
    """The function that holds the line; of a file that cannot be read, the line alone."""
    text = linecache.getlines(line.file)
    inner = _function(line)
    if inner is None:
        return Listing((line.text,), (1,))
    body = textwrap.dedent("".join(text[inner.lineno - 1 : inner.end_lineno]))
    return Listing(tuple(body.rstrip().split("\n")), (line.line - inner.lineno + 1,))


def bytecode(line: Line) -> Listing:
    """The instructions of the function that holds the line, one a line of text: ``LOAD_GLOBAL F``."""
    inner = _function(line)
    if inner is None:
        return Listing(())
    codes = list(_codes(compile("".join(linecache.getlines(line.file)), line.file, "exec")))
    code = min((code for code in codes if code.co_firstlineno <= line.line), key=lambda code: _away(code, inner))
    shown = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL", "RESUME")]
    lit = tuple(at for at, each in enumerate(shown, 1) if each.positions and each.positions.lineno == line.line)
    return Listing(tuple(f"{each.opname:<16} {each.argrepr}".rstrip() for each in shown), lit)


def dynamo(trail: Trail, followed: Followed) -> Listing:
    """Dynamo's graph, each module's parameter by the name that the user knows it by."""
    lines = [_plain(line) for code in trail.captured for line in _body(code)]
    lines = [line for line in lines if not re.fullmatch(r"\S+ = [\w.]+", line)]  # a parameter under another name
    return _of_nodes(lines, (text.partition(" = ")[0] for text in followed.captured))


def joint(trail: Trail, followed: Followed, direction: str) -> Listing:
    """The joint graph's nodes of one direction."""
    wanted = {node.name for graph in trail.joint for node in graph.nodes if node.direction == direction and node.is_op}
    lines = [_plain(line) for graph in trail.joint for line in _body(graph.code) if _name(line) in wanted]
    return _of_nodes(lines, (node.name for node in (followed.forward, followed.backward)[direction == "backward"]))


def schedule(graph: InductorGraph, line: Line) -> Listing:
    """Loop nests and calls before fusion, and the kernel that each went into: ``op18 pointwise 131072: … → …``.

    An entry is the line's own if its kernel computes something of the line, and the entry holds that.
    """
    ops = {origin.node: origin.op for origin in graph.nodes}
    lines, lit = [], []
    for group in (group for group in graph.before if group.kind != "nop"):
        kernel = next((each for each in graph.kernels if group.name in each.parts), None)
        computed = {origin.node for origin in kernel.computed} if kernel else set()
        own = {origin.node for origin in own_origins(kernel, line)} if kernel else set()
        nodes = [node for node in group.nodes if node in computed] or list(group.nodes)
        space = f" {_space(group.space)}" if any(group.space) else ""
        goes = shortened(kernel.name) if kernel else "no code"
        lines.append(f"{group.name} {group.kind}{space}: {operations(ops[node] for node in nodes)} → {goes}")
        lit += [len(lines)] if own & set(group.nodes) else []
    return Listing(tuple(lines), tuple(lit))


def triton(kernel: Kernel, line: Line) -> Listing:
    """A kernel's code without its header, the line's own lines lit."""
    return Listing(tuple(kernel.body.split("\n")), kernel.computing(line))


def ptx(assembly: Assembly, kernel: Kernel, lines: Collection[int]) -> Listing:
    """The instructions that come from these lines of the kernel's body (from 1) lit, in the whole of the PTX."""
    above = kernel.source[: kernel.source.find("@triton.jit")].count("\n")
    own = {at for line in lines for at in assembly.lines["ptx"].get(line + above, ())}
    texts = [re.sub(r"\s+", " ", text.partition("//")[0]).strip() for text in assembly.ptx.splitlines()]
    shown = [(at in own, text) for at, text in enumerate(texts, 1) if text and not text.startswith(".loc")]
    return Listing(tuple(text for _, text in shown), tuple(at for at, (is_own, _) in enumerate(shown, 1) if is_own))


def own_origins(kernel: Kernel, line: Line) -> list:
    """The operations that a kernel computes for a line."""
    return [origin for origin in kernel.computed if origin.line and origin.line.is_same_place(line)]


def main_kernel(followed: Followed, direction: str) -> Kernel | None:
    """Of the kernels that Inductor wrote in Triton, the one that computes most of the line; None if none does."""
    mine = [
        kernel
        for kernel in followed.kernels
        if kernel.language == "triton" and kernel.direction == direction and kernel.computing(followed.line)
    ]
    return max(mine, key=lambda kernel: len(own_origins(kernel, followed.line)), default=None)


def owner(line: Line) -> str:
    """The function that holds the line, with its class: ``MLP.forward``; nothing if the file cannot be read."""
    inner = _function(line)
    tree = ast.parse("".join(linecache.getlines(line.file)))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    around = [each.name for each in classes if inner and each.lineno < inner.lineno <= (each.end_lineno or 0)]
    return ".".join([*around, inner.name] if inner else around)


def _function(line: Line) -> ast.FunctionDef | None:
    text = "".join(linecache.getlines(line.file))
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= line.line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno, default=None)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _away(code: CodeType, function: ast.FunctionDef) -> int:
    """0 for the code of the function; decorators let it begin earlier than its name."""
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    return abs(code.co_firstlineno - first) + (code.co_name != function.name)


def _body(code: str) -> list[str]:
    """The lines of a graph that define something."""
    return [line.strip() for line in code.splitlines() if re.match(r'\s+\w+(: ".*?")? = ', line)]


def _name(line: str) -> str:
    return re.findall(r"\w+", line)[0]


def _plain(line: str) -> str:
    """A line of a graph without what repeats itself: where torch keeps an operation, how Dynamo spells a parameter."""
    line = re.sub(r"\btorch\.(ops\.|_C\._nn\.|nn\.functional\.)", "", line)
    line = re.sub(r"(aten\.\w+)\.(default|Tensor|correction)\b", r"\1", line)
    named = re.sub(r"\b[lL]_self_(modules|parameters)_(\w+?)_(?=[,)\s]|$)", r"self.\2", line)
    return re.sub(r"_(modules|parameters)_", ".", named)


def _of_nodes(lines: Iterable[str], names: Iterable[str]) -> Listing:
    shown, wanted = tuple(lines), set(names)
    return Listing(shown, tuple(at for at, line in enumerate(shown, 1) if _name(line) in wanted))


def _space(space: tuple[int | str, ...]) -> str:
    results, reduced = (*space, 1)[:2]
    return str(results) if reduced in (1, "1") else f"{reduced} → {results}"
