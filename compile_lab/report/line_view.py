"""One line of Python through all stages, as an explorer: choose a line, see what each stage made of it."""

import ast
import linecache
import textwrap
from collections.abc import Collection

from ..inductor.records import EXTERN, Kernel, Origin
from ..inductor.view import operations, shortened
from ..page.explore import Explorer
from ..page.tables import Code, Table
from .line import Followed, Trail

LONGEST_OPTION = 44


def explorer(trail: Trail, title: str = "What becomes of one line") -> Explorer:
    """Axes: the line, and the pass whose kernels are shown. Kernels are folded to what computes the line."""
    by_option = {_option(each): each for each in trail.lines}
    return Explorer(
        title,
        {"line": list(by_option), "kernels": ["forward", "backward"]},
        lambda line, kernels: panel(by_option[line], kernels),
    )


def panel(followed: Followed, direction: str) -> list[str | Table | Code]:
    """The line in its function, what the stages made of it, and the kernels of one direction that compute it."""
    launched = [k for k in followed.kernels if k.direction != _other(direction) and _own(k, followed)]
    written = {kernel.source: kernel for kernel in launched if kernel.language != EXTERN}
    codes = [folded(kernel, kernel.computing(followed.line)) for kernel in written.values()]
    return [source(followed), stages(followed), launches(followed, launched, direction), *codes]


def source(followed: Followed) -> Code:
    """The function that holds the line, the line marked."""
    line = followed.line
    text = linecache.getlines(line.file)
    functions = [node for node in ast.walk(ast.parse("".join(text))) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= line.line <= (node.end_lineno or 0)]
    if not around:
        return Code(line.text, title=f"{line}", mark=[1])
    inner = max(around, key=lambda node: node.lineno)
    body = textwrap.dedent("".join(text[inner.lineno - 1 : inner.end_lineno]))
    return Code(body, title=f"{line}", mark=[line.line - inner.lineno + 1])


def stages(followed: Followed) -> Table:
    """One row a stage before the kernels: Dynamo, the joint graph, what is saved, what is computed again."""
    saved = [f"{each.title or each.name}: {each.extra_nbytes:,} bytes" for each in followed.saved if each.extra_nbytes]
    rows = [
        ("Dynamo captures", ", ".join(text.partition(" = ")[2] for text in followed.captured)),
        ("joint graph, forward", operations(node.op for node in followed.forward)),
        ("joint graph, backward", operations(node.op for node in followed.backward)),
        ("saved for the backward", "\n".join(saved) or "nothing"),
        ("computed again there", operations(each.op for each in followed.recomputed if each.nbytes) or "nothing"),
    ]
    return Table(["stage", "what becomes of the line"], rows)


def launches(followed: Followed, kernels: Collection[Kernel], direction: str) -> Table:
    """One row a launch: what of the line it computes, and how much else."""
    rows = []
    for kernel in kernels:
        own = _own(kernel, followed)
        by = "a library" if kernel.language == EXTERN else kernel.language
        others = len(kernel.computed) - len(own)
        rows.append((Code(shortened(kernel.name)), by, operations(origin.op for origin in own), others))
    columns = [f"{direction} kernel", "written in", "of this line", "operations of other lines"]
    return Table(columns, rows, align="lllr")


def folded(kernel: Kernel, marked: Collection[int]) -> Code:
    """A kernel's code, the given lines marked, and what is between them left out. With none, the whole.

    Not highlighted by syntax: in an explorer of many kernels that would be most of the page.
    """
    lines = kernel.body.split("\n")
    title = f"`{kernel.name}`"
    if not marked:
        return Code(kernel.body, "text", title)
    shown: list[str] = []
    marks, left_out = [], 0
    for at, line in enumerate(lines, 1):
        if at == 2 or at in marked:  # the signature, and the line's own
            if left_out:
                shown.append(f"    # … {left_out} lines …")
            left_out = 0
            shown.append(line)
            marks += [len(shown)] if at in marked else []
        else:
            left_out += at > 1  # the first line is the decorator that every kernel has
    if left_out:
        shown.append(f"    # … {left_out} lines …")
    return Code("\n".join(shown), "text", title, marks)


def _own(kernel: Kernel, followed: Followed) -> list[Origin]:
    """The operations that the kernel computes for the line."""
    return [origin for origin in kernel.computed if origin.line and origin.line.is_same_place(followed.line)]


def _option(followed: Followed) -> str:
    text = textwrap.shorten(followed.line.text, LONGEST_OPTION, placeholder=" …")
    return f"{followed.line.line}: {text}"


def _other(direction: str) -> str:
    return "backward" if direction == "forward" else "forward"
