"""Exercises of chapter 04, Inductor's code. Kernels are more_or_fewer for a virtual H200."""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..exercises.judging import exercise, more_or_fewer

KERNELS = 2
"""Launches of 04.1 on an H200: a test asks Inductor."""


@exercise("04.1", takes=int)
def predicted_kernels(answer: int) -> str | None:
    """How many launches: a linear layer, a GELU, a layer norm, in inference and float32."""
    return more_or_fewer(answer, KERNELS, "which of the three fuse into one loop, and which one is a library call?")


class PlainOp(NamedTuple):
    """An operation of 04.4: its name, what computes it, and what it reads: inputs or results of other operations.

    ``kind`` is "pointwise", "row" (a reduction of each row), "whole" (of the whole matrix) or "library".
    """

    name: str
    kind: str
    reads: tuple[str, ...]


GRAPHS = (
    "a=pointwise(x) b=pointwise(a) c=pointwise(b)",
    "p=pointwise(x) q=pointwise(x,y)",
    "m=row(x) c=pointwise(x,m) s=row(c) y=pointwise(c,s)",
    "m=whole(x) c=pointwise(x,m) d=pointwise(c)",
    "h=pointwise(x) p=library(h) g=pointwise(p) r=pointwise(g,x)",
    "a=pointwise(x) p=library(a) b=pointwise(a,p)",
    "a=pointwise(x) p=library(a) b=pointwise(x) c=pointwise(b,p)",
    "a=pointwise(x) p=library(z) b=pointwise(a) c=pointwise(b,p)",
    "a=pointwise(x) m=whole(a) b=pointwise(a,m) p=library(b) c=pointwise(p,a)",
)
"""Operations of 04.4, each with its kind and what it reads."""


def plain_ops(text: str) -> tuple[PlainOp, ...]:
    """``"a=pointwise(x) m=row(a)"``: operations in the order of the program."""
    found = re.findall(r"(\w+)=(\w+)\(([\w,]+)\)", text)
    return tuple(PlainOp(name, kind, tuple(reads.split(","))) for name, kind, reads in found)


def matrices_moved(ops: Sequence[PlainOp], group: Sequence[str]) -> int:
    """Matrices that one kernel reads and writes: what comes from outside, once, and what is needed there.

    The results of reductions are far smaller than a matrix, and count nothing.
    """
    small = {op.name for op in ops if op.kind in ("row", "whole")}
    outside = {name for op in ops if op.name not in group for name in op.reads}
    inside = {name for op in ops if op.name in group for name in op.reads}
    written = {name for name in group if name in outside or name not in inside}
    return len(inside - set(group) - small) + len(written - small)


def _fault(ops: Sequence[PlainOp], done: frozenset[str], group: Sequence[str]) -> str | None:
    """Why this group cannot be the next kernel after ``done``; None if it can."""
    kinds = {op.name: op.kind for op in ops}
    for op in ops:
        if op.name not in group:
            continue
        if op.kind == "library" and len(group) > 1:
            return f"{op.name} is a library's kernel, and nothing joins it"
        for name in op.reads:
            if name not in kinds or name in done:
                continue
            if name not in group:
                return f"{op.name} reads {name}, which is not there yet"
            if kinds[name] == "whole":
                return f"{op.name} needs {name} of the whole matrix, which is there once the kernel has ended"
    return None


@functools.cache
def _fewest_moved(ops: tuple[PlainOp, ...], done: frozenset[str] = frozenset()) -> int:
    """The fewest matrices that kernels move for what is not done yet: each possible next kernel is tried."""
    left = [op.name for op in ops if op.name not in done]
    groups = itertools.chain.from_iterable(itertools.combinations(left, size + 1) for size in range(len(left)))
    legal = [group for group in groups if _fault(ops, done, group) is None]
    return min((matrices_moved(ops, group) + _fewest_moved(ops, done.union(group)) for group in legal), default=0)


@exercise("04.4", takes=Callable)
def groups_operations(answer: Callable) -> str | None:
    """fuse(ops): the names in groups, a kernel each and in order, so that as few matrices as possible are moved."""
    for text in GRAPHS:
        ops = plain_ops(text)
        got = answer(ops)
        if not isinstance(got, list | tuple) or not all(isinstance(each, list | tuple | set) for each in got):
            return f"it returns {got!r}: this asks for a list of groups, each a list of names."
        shown = " ".join("{" + ", ".join(map(str, group)) + "}" for group in got)
        if sorted(name for group in got for name in group) != sorted(op.name for op in ops):
            return f"for {text} it makes {shown}: not every operation is in exactly one group."
        done: frozenset[str] = frozenset()
        for group in got:
            if wrong := _fault(ops, done, list(group)):
                return f"for {text} it makes {shown}: {wrong}."
            done = done.union(group)
        if (moved := sum(matrices_moved(ops, list(group)) for group in got)) > _fewest_moved(ops):
            return f"for {text} it makes {shown}, which moves {moved} matrices, and fewer will do."
    return None
