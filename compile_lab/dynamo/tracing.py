"""Where did the graph break, what is guarded, why was it compiled again? ``trace(fn, *args)`` answers all three.

It runs the function under ``torch.compile`` with a backend that keeps each graph and runs it as it is, and reads
what Dynamo says meanwhile (``compile_lab.capture``). ``torch._dynamo.explain`` looks at the graphs alone and so
misses a break inside a function that was called; the structured trace names each of them.
"""

import contextlib
import dis
import io
import logging
import re
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import CompileContext, compiled_anew, register_bytecode_hook
from ..capture import BreakReported, FrameStarted, GuardTree, Log, Recompiled, compilation
from ..doors import PrintedRepr, door
from ..source import PACKAGE, Line, place
from .guards import Guard, guards_of, in_words


@dataclass(frozen=True)
class GraphBreak:
    """One line at which Dynamo had to stop: what it says of it, and what it advises."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    file: str
    line: int
    source: str
    function: str
    skipped_for: str
    """Why the whole function is left to Python, no graph before the break and none after; empty if it was split."""
    via: tuple[Line, ...]
    """The user's calls that led here from the traced function, outermost first."""

    @property
    def hint(self) -> str:
        """The first hint, or nothing."""
        return self.hints[0] if self.hints else ""

    @property
    def place(self) -> str:
        """Where it is: ``cell 3, line 5``."""
        return place(self.file, self.line)

    def __str__(self) -> str:
        split = f"function left to Python: {self.skipped_for}" if self.skipped_for else "the graph ends here"
        return f"{self.place}: {self.source}\n    {self.reason} ({split})"


@dataclass(frozen=True)
class CapturedGraph:
    """One FX graph that Dynamo captured, as readable Python."""

    function: str
    """The Python function it was captured from; a resume function is named by torch."""
    frame: str
    code: str = field(repr=False)
    ops: int
    calls: int
    """How often it ran during the trace."""
    module: torch.fx.GraphModule = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"graph of {self.function}: {self.ops} ops, run {self.calls}×\n{self.code}"


@dataclass(frozen=True)
class Recompile:
    """A frame compiled once more. ``failed``: the guard that each earlier compilation failed, newest first."""

    function: str
    frame: str
    failed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.function} compiled again ({self.frame}): " + "; ".join(self.failed)


@dataclass(frozen=True)
class Rewritten:
    """A function's bytecode before and after Dynamo: what Python really runs instead of it."""

    function: str
    before: types.CodeType = field(repr=False)
    after: types.CodeType = field(repr=False)

    @property
    def steps(self) -> tuple[str, ...]:
        """What the new bytecode does, in order: run a graph, call what broke it, branch, go on in a resume function."""
        return tuple(_steps(self.before, self.after))


@dataclass(frozen=True, repr=False)
class DynamoTrace(PrintedRepr):
    """Everything Dynamo did with a function and the inputs it was called with."""

    graphs: tuple[CapturedGraph, ...]
    breaks: tuple[GraphBreak, ...]
    guards: tuple[Guard, ...]
    recompiles: tuple[Recompile, ...]
    rewritten: tuple[Rewritten, ...]
    result: Any = field(repr=False)
    """What the last call returned."""
    printed: str
    """What the function printed."""

    @property
    def ops(self) -> int:
        """Operations in all graphs together."""
        return sum(graph.ops for graph in self.graphs)

    def __str__(self) -> str:
        counts = (
            f"{_count(len(self.graphs), 'graph')} with {_count(self.ops, 'op')}, "
            f"{_count(len(self.breaks), 'break')}, {_count(len(self.recompiles), 'recompile')}"
        )
        return "\n".join([counts, *map(str, self.breaks), *map(str, self.recompiles)])


@door
def trace(
    fn: Callable[..., Any],
    *args: Any,
    also: Sequence[tuple[Any, ...]] = (),
    fullgraph: bool = False,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> DynamoTrace:
    """Call ``fn(*args, **kwargs)`` under Dynamo and report graphs, breaks, guards and recompiles.

    ``fn`` is any function or module; ``also`` holds the positional arguments of further calls, which is how a
    recompile comes about. What ``fn`` prints is kept, warnings are silenced. Compiled code of earlier cells is
    forgotten (``torch.compiler.reset``), so that the trace starts and ends clean.

    Raises TypeError if ``fn`` cannot be called, whatever ``fn`` itself raises, torch's own ``Unsupported`` for a
    break under ``fullgraph=True``, and RuntimeError if graphs were made but a dispatch mode kept them from running.

    >>> import torch
    >>> from compile_lab.dynamo import trace
    >>> found = trace(lambda x: x.relu() + 1 if x.sum() > 0 else x - 1, torch.ones(4))
    >>> [(graph.ops, graph.calls) for graph in found.graphs], found.breaks[0].reason
    ([(2, 1), (2, 1)], 'Data-dependent branching')
    """
    kept: list[Kept] = []
    rewritten: list[Rewritten] = []
    with (
        compiled_anew(),
        register_bytecode_hook(lambda old, new: rewritten.append(Rewritten(old.co_name, old, new))),
        quiet() as printed,
        compilation() as log,
    ):
        compiled = torch.compile(fn, backend=keeping(kept), fullgraph=fullgraph, dynamic=dynamic)
        for call in (args, *also):
            result = compiled(*call, **kwargs)
    if kept or dispatch_mode_is_active():
        log.require_compiled()
    return DynamoTrace(
        graphs=tuple(graph(each, log) for each in kept),
        breaks=merged_breaks(log.of(BreakReported)),
        guards=tuple(guard for tree in log.of(GuardTree) for guard in guards_of(tree)),
        recompiles=tuple(_recompile(event, log) for event in log.of(Recompiled)),
        rewritten=tuple(rewritten),
        result=result,
        printed=printed.getvalue(),
    )


class Kept:
    """A captured graph that counts its calls."""

    def __init__(self, module: torch.fx.GraphModule, frame: str):
        self.module, self.frame, self.calls = module, frame, 0
        self.code = module.print_readable(print_output=False)

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.module.forward(*args)


def keeping(kept: list[Kept]) -> Callable[..., Kept]:
    """A backend for torch.compile that keeps each graph in ``kept`` and runs it as it is."""

    def backend(module: torch.fx.GraphModule, _: list[torch.Tensor]) -> Kept:
        kept.append(Kept(module, str(CompileContext.current_compile_id())))
        return kept[-1]

    return backend


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Keep what the traced function prints, and what Dynamo would log: the trace says it better."""
    printed = io.StringIO()
    loggers = [logging.getLogger(name) for name in ("torch._dynamo", "torch._guards")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield printed
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def graph(kept: Kept, log: Log) -> CapturedGraph:
    """A kept graph with the name of its function, which the log of the calls that compiled it tells."""
    ops = sum(node.op.startswith("call") for node in kept.module.graph.nodes)
    return CapturedGraph(_function(kept.frame, log), kept.frame, readable(kept.code), ops, kept.calls, kept.module)


def _function(frame: str, log: Log) -> str:
    """The name of the function of a frame: its first compilation told it."""
    number = frame.partition("/")[0]
    return next((e.function for e in log.of(FrameStarted) if e.frame.partition("/")[0] == number), "?")


def readable(code: str) -> str:
    """A graph's code as torch prints it, less the notes on lifetimes, with places a reader can find."""
    code = re.sub(r";  (\w+ = )+None", "", code)
    where = r"(# .*?)File: (.+?):(\d+) in \S+, code: (.*)"  # torch may put a note of its own before the file
    code = re.sub(where, lambda m: f"{m[1]}{place(m[2], int(m[3]))}: {m[4]}", code)
    return "\n".join(line.rstrip() for line in code.strip().splitlines())


def merged_breaks(events: list[BreakReported]) -> tuple[GraphBreak, ...]:
    """One break a user line: Dynamo reports the same line once for each frame that it unwinds."""
    found: dict[tuple[str, int], GraphBreak] = {}
    for event in events:
        users = [at for at, line in enumerate(event.stack) if line.is_users] or [len(event.stack) - 1]
        ours = [at for at, line in enumerate(event.stack) if Path(line.file).is_relative_to(PACKAGE)]
        stack = event.stack[(ours or [-1])[-1] + 1 : users[-1] + 1] or event.stack[-1:]
        at = stack[-1]
        earlier = found.get((at.file, at.line))
        if earlier is None or (event.skipped_for and not earlier.skipped_for):
            said = earlier or event
            found[at.file, at.line] = GraphBreak(
                said.reason,
                said.explanation,
                said.hints,
                at.file,
                at.line,
                at.text,
                at.function,
                event.skipped_for,
                tuple(line for line in stack[:-1] if line.is_users),
            )
    return tuple(found.values())


def _recompile(event: Recompiled, log: Log) -> Recompile:
    failed = [in_words(said.partition(": ")[2]) for said in event.failed]
    return Recompile(_function(event.frame, log), event.frame, tuple(failed))


def _steps(before: types.CodeType, after: types.CodeType) -> Iterator[str]:
    own, from_builtins, asks_for_a_profiler = set(before.co_names), False, False
    for instruction in dis.get_instructions(after):
        name = str(instruction.argval)
        kind = instruction.opname
        if kind == "LOAD_GLOBAL" and name.startswith("__compiled_fn"):
            yield "run the graph"
        elif kind == "LOAD_GLOBAL" and name.startswith("__resume_at"):
            yield "go on in a resume function"
        elif name in own and (kind == "LOAD_GLOBAL" or (kind == "LOAD_CONST" and from_builtins)):
            yield f"Python: {name}"
        elif name in own and kind in ("LOAD_ATTR", "LOAD_METHOD"):
            yield f"Python: .{name}"
        elif name in ("_is_profiler_enabled", "record_pregraph_bytecode_exit"):
            # From torch 2.15 on Dynamo marks the way into a graph between these two, with branches of its own.
            asks_for_a_profiler = name == "_is_profiler_enabled"
        elif kind.startswith("POP_JUMP") and not asks_for_a_profiler:
            yield "Python: branch"
        # A builtin is fetched by name from a dictionary that Dynamo keeps as a global.
        from_builtins = name.startswith("__builtins_dict__") or (from_builtins and kind == "LOAD_CONST")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
