"""Many functions compiled as one, each on inputs of its own: what a compile costs is shared, what they compute is not.

A function is written that calls them one after the other, a line for each. No result depends on another's inputs, so
nothing is fused across them; which kernel belongs to which function is told by the line that asked for it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compile_lab._torch.dynamo import compiled_anew
from compile_lab.doors import door
from compile_lab.inductor.lowering import collecting
from compile_lab.inductor.records import EXTERN, InductorGraph


@door
@dataclass(frozen=True)
class JudgedCall:
    """A function with the arguments that it is to be called with.

    >>> import torch
    >>> from chapters.is_it_right.rounding.together import JudgedCall
    >>> JudgedCall("add", torch.add, (torch.ones(2), torch.ones(2)), {"alpha": 3})()
    tensor([4., 4.])
    """

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None

    def __call__(self) -> Any:
        return self.fn(*self.args, **(self.kwargs or {}))


@dataclass(frozen=True)
class CompiledCall:
    """What the compiled code gave for one call: its result, or why there is none.

    ``written``: Inductor wrote a kernel for it; ``called``: it calls a library or one of torch's own kernels.
    """

    result: Any
    written: bool = False
    called: bool = False
    stopped: str = ""


@door
def compiled_together(calls: Sequence[JudgedCall], options: Mapping[str, Any] | None = None) -> list[CompiledCall]:
    """The result of each call, of code that torch.compile made for all of them in one graph, in their order.

    Where the whole cannot be compiled, or fails when it runs, its halves are tried, so that a single call stands alone
    with the reason in ``stopped``. Forgets all compiled code before and after. ``options`` are torch.compile's.
    """
    if not calls:
        return []
    try:
        with compiled_anew(), collecting() as graphs, torch.no_grad():
            compiled = torch.compile(_one_function(len(calls)), fullgraph=True, options=dict(options or {}) or None)
            results = compiled([each.fn for each in calls], [(each.args, dict(each.kwargs or {})) for each in calls])
    except Exception as reason:  # torch raises what it likes, and one operator must not take the others along
        if len(calls) == 1:
            return [CompiledCall(None, stopped=_first_line(reason))]
        half = len(calls) // 2
        return compiled_together(calls[:half], options) + compiled_together(calls[half:], options)
    written, called = _lines(graphs, extern=False), _lines(graphs, extern=True)
    return [CompiledCall(result, at in written, at in called) for at, result in enumerate(results)]


FILE, FIRST_LINE = "<many calls: {count}>", 2


def _one_function(count: int) -> Callable[..., Any]:
    """A function of so many lines; its source is where tracebacks look for it, so that each kernel finds its line."""
    body = [f"    y{at} = fns[{at}](*inputs[{at}][0], **inputs[{at}][1])" for at in range(count)]
    source = "\n".join(
        ["def many(fns, inputs):", *body, f"    return [{', '.join(f'y{at}' for at in range(count))}]\n"]
    )
    file = FILE.format(count=count)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), namespace)
    return namespace["many"]


def _lines(graphs: Sequence[InductorGraph], extern: bool) -> set[int]:
    """Numbers of the calls that some kernel of that kind computes."""
    origins = [
        origin
        for graph in graphs
        for kernel in graph.kernels
        if (kernel.language == EXTERN) == extern
        for origin in kernel.computed
    ]
    return {line.line - FIRST_LINE for origin in origins for line in origin.stack if line.file.startswith(FILE[:12])}


def _first_line(reason: Exception) -> str:
    return f"{type(reason).__name__}: {str(reason).strip().partition(chr(10))[0]}"[:300]
