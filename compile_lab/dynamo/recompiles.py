"""Which call would compile again, and why? Asked of the guards before the call, and compared with what torch then did.

``would_recompile`` puts new arguments before the guards of everything compiled so far, without compiling anything.
``watch`` compiles a function and keeps account of its calls; ``replay`` makes a whole series of calls from scratch.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import cache_entries, get_guard_fail_reason, reset_dynamo
from ..capture import BreakReported, GuardTree, Recompiled, compilation
from ..doors import PrintedRepr, door
from .guards import Guard, guards_of, in_words
from .tracing import CapturedGraph, DynamoTrace, GraphBreak, Kept, graph, keeping, merged_breaks, quiet


@dataclass(frozen=True)
class FailedGuard:
    """The first guard of one compilation that the arguments fail. ``compilation`` reads ``frame/recompilation``."""

    compilation: str
    guard: str

    def __str__(self) -> str:
        return f"{self.compilation} fails {self.guard}"


@dataclass(frozen=True)
class Forecast:
    """What the guards say of a call before it is made: the compilation that fits, or the guard that each one fails."""

    fits: str
    """The compilation that would be used, ``0/1``; empty if none fits."""
    failed: tuple[FailedGuard, ...]
    """One for each compilation that was asked and does not fit, newest first: the order in which torch asks them."""

    @property
    def recompiles(self) -> bool:
        """True if no compilation fits: by default torch then compiles."""
        return not self.fits

    def __str__(self) -> str:
        if self.fits:
            return f"no: {self.fits} fits"
        return "yes: " + ("; ".join(map(str, self.failed)) or "nothing is compiled yet")


@dataclass(frozen=True, repr=False)
class WatchedCall(PrintedRepr):
    """One call of a watched function: what the guards said before it, and what torch did."""

    arguments: str
    forecast: Forecast
    outcome: str
    """``compiled`` (and ran), ``reused``, ``eager`` (no graph ran), or ``raised`` and the error's name."""
    graphs: tuple[CapturedGraph, ...]
    """The graphs that were made for it."""
    guards: tuple[Guard, ...]
    breaks: tuple[GraphBreak, ...]
    """Where it broke, if it was compiled for it."""
    failed: tuple[str, ...]
    """Why it was compiled again, in torch's own account: what each earlier compilation failed, newest first."""
    unlike_first: tuple[str, ...]
    """What the first compilation of each function failed alone: how this call differs from the first one."""
    result: Any = field(repr=False, compare=False)
    """What it returned, or the exception that it raised."""

    @property
    def trace(self) -> DynamoTrace:
        """What was made for this call, as a `trace` says it, but for the bytecode."""
        return DynamoTrace(self.graphs, self.breaks, self.guards, (), (), self.result, "")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that its graphs take as inputs, with sizes: ``tokens [2, s77]``. Parameters are left out."""
        return tuple(name for each in self.graphs for name in input_sizes(each))

    def __str__(self) -> str:
        why = f" ({'; '.join(self.failed)})" if self.failed else ""
        return f"{self.arguments}: {self.outcome}{why}"


@door
def would_recompile(compiled: Callable[..., Any], *args: Any, **kwargs: Any) -> Forecast:
    """Which compilation would serve this call? Asks the guards; compiles nothing and runs nothing.

    ``compiled`` is what ``torch.compile`` returned for a function or a module, whatever the backend, or what `watch`
    returned. Asked is the frame of the function itself, under the grad mode and the other switches of this moment;
    after a graph break, the frames that follow cannot be asked, since their inputs do not exist yet. What torch does
    with a call that nothing fits is a matter of the stance and of the recompile limit; and a function that torch has
    given up on runs eagerly, whatever fits.

    Raises TypeError for a function that is not compiled, and for arguments that it does not take.

    >>> import torch
    >>> from compile_lab.dynamo import watch, would_recompile
    >>> watched = watch(lambda x, n: x + n)
    >>> y = watched(torch.ones(4), 1)
    >>> print(would_recompile(watched, torch.ones(4), 2))
    yes: 0/0 fails n == 1
    """
    code, names = _frame(compiled, args, kwargs)
    failed: list[FailedGuard] = []
    for entry in cache_entries(code):
        guards, compilation_id = entry.guard_manager, str(entry.compile_id)
        if guards.check(names):
            return Forecast(compilation_id, tuple(failed))
        why = get_guard_fail_reason(guards, code, names, entry.compile_id, entry.backend, skip_logging=True)
        failed.append(FailedGuard(compilation_id, _reason(why)))
    return Forecast("", tuple(failed))


class Watched:
    """A compiled function that keeps account of its ``calls``; made by `watch`."""

    def __init__(self, fn: Callable[..., Any], options: dict[str, Any]):
        self._kept: list[Kept] = []
        self.compiled = torch.compile(fn, backend=keeping(self._kept), **options)
        self.calls: list[WatchedCall] = []

    @property
    def compilations(self) -> int:
        """How many of the calls made torch compile."""
        return sum(bool(call.graphs) for call in self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, and enter the call into ``calls``. What it raises comes through, entered as well."""
        forecast = would_recompile(self.compiled, *args, **kwargs)
        made, ran = len(self._kept), self._runs()
        with quiet(), compilation() as log:
            try:
                result = self.compiled(*args, **kwargs)
            except Exception as error:
                result = error
        new = self._kept[made:]
        if new and dispatch_mode_is_active():
            log.require_compiled()
        if isinstance(result, Exception):
            outcome = f"raised {type(result).__name__}"
        else:
            outcome = "compiled" if new else "reused" if self._runs() > ran else "eager"
        reasons = [why for event in log.of(Recompiled) for why in event.failed]
        self.calls.append(
            WatchedCall(
                described(*args, **kwargs),
                forecast,
                outcome,
                tuple(graph(each, log) for each in new),
                tuple(guard for tree in log.of(GuardTree) for guard in guards_of(tree)),
                merged_breaks(log.of(BreakReported)),
                tuple(map(_reason, reasons)),
                tuple(dict.fromkeys(_reason(each) for each in reasons if _FIRST.match(each))),
                result,
            )
        )
        if isinstance(result, Exception):
            raise result
        return result

    def _runs(self) -> int:
        return sum(kept.calls for kept in self._kept)


@door
def watch(fn: Callable[..., Any], **options: Any) -> Watched:
    """Compile ``fn``, a function or a module, with a backend that keeps each graph and runs it as it is.

    ``options`` go to ``torch.compile``: ``dynamic``, ``fullgraph``, ``options``. Compiled code of earlier cells is
    forgotten (``torch.compiler.reset``). What ``fn`` prints when called is kept back. TypeError if it is not callable.

    >>> import torch
    >>> from compile_lab.dynamo import watch
    >>> watched = watch(lambda x, n: x + n)
    >>> y = watched(torch.ones(4), 1), watched(torch.ones(4), 2), watched(torch.ones(4), 3)
    >>> for call in watched.calls:
    ...     print(call)
    float32 [4], 1: compiled
    float32 [4], 2: compiled (n == 1)
    float32 [4], 3: reused
    """
    reset_dynamo()
    return Watched(fn, options)


@door
def replay(fn: Callable[..., Any], calls: Sequence[Any], **options: Any) -> tuple[WatchedCall, ...]:
    """Compile ``fn`` from scratch and call it once for each tuple of positional arguments; what became of each call?

    ``options`` go to ``torch.compile``. An exception of ``fn`` is an outcome like any other and ends nothing. Compiled
    code is forgotten before and after.

    Raises TypeError, before anything runs, for a call that is no tuple, and for arguments that ``fn`` does not take.

    >>> import torch
    >>> from compile_lab.dynamo import replay
    >>> calls = replay(lambda x: x.relu(), [(torch.ones(2),), (torch.ones(2),), (torch.ones(3),), (torch.ones(4),)])
    >>> [(call.arguments, call.outcome) for call in calls]
    [('float32 [2]', 'compiled'), ('float32 [2]', 'reused'), ('float32 [3]', 'compiled'), ('float32 [4]', 'reused')]
    """
    for at, args in enumerate(calls):
        if not isinstance(args, tuple | list):
            kind = type(args).__name__
            raise TypeError(f"calls[{at}] is a {kind}; each call is a tuple of arguments, for a single one (x,)")
    watched = watch(fn, **options)
    try:
        for at, args in enumerate(calls):
            try:
                watched(*args)
            except Exception:
                if len(watched.calls) == at:  # no outcome of the call: it could not be made
                    raise
    finally:
        reset_dynamo()
    return tuple(watched.calls)


def described(*args: Any, **kwargs: Any) -> str:
    """Arguments in a few words: ``float32 [2, 16], 3, scale=0.5``; a size that is marked has the mark's name."""
    parts = [_described(value) for value in args]
    return ", ".join([*parts, *(f"{name}={_described(value)}" for name, value in kwargs.items())])


def input_sizes(made: CapturedGraph) -> tuple[str, ...]:
    """A graph's input tensors with their sizes, symbols where a size may vary: ``tokens [2, s77]``. No parameters."""
    found = []
    for node in made.module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            name = node.name.strip("_").removeprefix("L_").removeprefix("l_")
            found.append(f"{name} [{', '.join(map(str, value.shape))}]")
    return tuple(found)


def _frame(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The code object that Dynamo compiled for a callable, and the names that a call with these arguments binds."""
    compiled = compiled.compiled if isinstance(compiled, Watched) else compiled
    module = getattr(compiled, "_orig_mod", None)
    fn = getattr(compiled if module is None else compiled.forward, "_torchdynamo_orig_callable", None)
    if fn is None:
        kind = type(compiled).__name__
        raise TypeError(f"would_recompile needs what torch.compile or watch returned, not {kind}: {compiled!r:.60}")
    if getattr(fn, "__self__", None) is module and module is not None:
        fn = module.forward  # Dynamo passes over torch's own Module.__call__
    own = getattr(fn, "__func__", fn)
    first = (fn.__self__,) if own is not fn else ()
    bound = inspect.signature(own, follow_wrapped=False).bind(*first, *args, **kwargs)
    bound.apply_defaults()
    cells = zip(own.__code__.co_freevars, own.__closure__ or (), strict=True)
    return own.__code__, {**bound.arguments, **{name: cell.cell_contents for name, cell in cells}}


_FIRST = re.compile(r"\d+/0: ")


def _reason(message: str) -> str:
    """torch's reason against one compilation, ``0/1: L['n'] == 2  # …``, as the condition in words."""
    return in_words(message.partition(": ")[2].partition("\nUser stack")[0])


_MARKS = {
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_static_indices": "static",
    "_dynamo_weak_dynamic_indices": "maybe dynamic",
}


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value) if len(repr(value)) < 30 else type(value).__name__
    sizes = [str(size) for size in value.shape]
    for attribute, mark in _MARKS.items():
        for dim in getattr(value, attribute, ()):
            sizes[dim] += f" {mark}"
    extra = ", requires_grad" if value.requires_grad else ""
    extra += "" if value.is_contiguous() else f", stride {list(value.stride())}"
    return f"{str(value.dtype).removeprefix('torch.')} [{', '.join(sizes)}]{extra}"
