"""What the allocator gave out while a step ran: on a CPU from the profiler's events, on a GPU from its history."""

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .._torch.dispatcher import cuda_history, dispatch_mode_is_active, profiler_events
from ..capture import NotCompiledError, compilation
from ..doors import door
from ..measure.allocator import peak
from ..measure.timing import collector_off
from ..measure.trace import profiling
from ..page.units import number
from ..source import Line

Mark = Callable[[], None]


@dataclass(frozen=True)
class Allocation:
    """Bytes that were alive at the peak, and who asked for them: operations from the outermost to the innermost.

    On a GPU the history knows no operations: there it is the user's line, or "backward" for the autograd engine.
    """

    by: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True)
class Peak:
    """The most that the allocator had given out at one time in a step. All bytes are above what was there before."""

    device: str
    peak_nbytes: int
    held_nbytes: int | None
    """When the forward was done; None where the step was one piece."""
    left_nbytes: int
    """When the step was done."""
    at: str
    """The operation that allocated at the peak; on a GPU the line."""
    alive: tuple[Allocation, ...] = field(repr=False)
    compiled_graphs: int = 0
    """How many compiled graphs the step entered; 0 for an eager one."""
    allocated_nbytes: int | None = None
    """The peak by the GPU's caching allocator's own count, with sizes rounded up; None on a CPU."""
    curve: tuple[int, ...] = field(default=(), repr=False)
    """Bytes given out after each thing that the allocator did."""
    between_calls_nbytes: int | None = None
    """The peak without what an operation took and gave back itself, as a library's convolution does; None on a GPU."""
    forward_events: int = field(default=0, repr=False)
    """How many of those before the forward was done; 0 where the step was one piece."""

    def require_compiled(self) -> None:
        """Raise NotCompiledError (a RuntimeError) if no compiled graph ran: what was measured is eager code."""
        if not self.compiled_graphs:
            raise NotCompiledError("no compiled graph ran in this step, so what was measured is eager code")

    def by_op(self, known: Collection[str] = ()) -> dict[str, int]:
        """Bytes alive at the peak by operation, most first: the outermost that is ``known``, else the innermost."""
        counted: Counter[str] = Counter()
        for each in self.alive:
            counted[next((op for op in each.by if op in known), each.by[-1])] += each.nbytes
        return dict(counted.most_common())

    def __str__(self) -> str:
        held = "" if self.held_nbytes is None else f"{number(self.held_nbytes)} held after the forward, "
        how = f", {self.compiled_graphs} compiled graphs" if self.compiled_graphs else ", eager"
        return (
            f"peak {number(self.peak_nbytes)} bytes at {self.at}; {held}{number(self.left_nbytes)} left "
            f"({self.device}{how})"
        )


@door
def measure_peak(step: Callable[[], Any], reset: Callable[[], Any] | None = None) -> Peak:
    """The allocator's peak while ``step()`` runs, eager or compiled; on the GPU if the step allocates there.

    ``reset`` is called before each run and not measured: ``model.zero_grad``, where gradients would pile up. The step
    runs twice: once to compile and warm up, once measured. Its result is dropped when it is done.

    A step that works in place has a peak of 0. Raises TypeError for what cannot be called, RuntimeError under a
    TorchDispatchMode and where the profiler saw nothing of the step, and what ``step`` raises.

    >>> import torch
    >>> from compile_lab.memory import measure_peak
    >>> x = torch.ones(1000)
    >>> print(measure_peak(lambda: x.exp().sin()))
    peak 8,000 bytes at aten.sin; 4,000 left (CPU, eager)
    """
    return _measure(lambda mark: step(), step, reset)


@door
def measure_step(forward: Callable[[], torch.Tensor], reset: Callable[[], Any] | None = None) -> Peak:
    """The same for ``loss = forward(); loss.backward()``: with the bytes that are held between the two.

    Raises ValueError if ``forward`` does not return one number that requires a gradient, and RuntimeError where no
    allocation was seen: a loss and its gradients take memory.

    >>> import torch
    >>> from compile_lab.memory import measure_step
    >>> x = torch.ones(1000, requires_grad=True)
    >>> print(measure_step(lambda: x.exp().sin().sum(), reset=lambda: setattr(x, "grad", None)))
    peak 12,008 bytes at aten.mul; 4,004 held after the forward, 4,004 left (CPU, eager)
    """

    def step(mark: Mark) -> torch.Tensor:
        loss = forward()
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            kind = f"{list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ValueError(f"forward must return a loss: one number that requires a gradient, not {kind}")
        mark()
        loss.backward()
        return loss

    peak = _measure(step, forward, reset)
    if not peak.peak_nbytes:
        raise RuntimeError(
            f"{getattr(forward, '__qualname__', repr(forward))}: no allocation was seen, though a loss and its "
            "gradients take memory: the profiler lost them. Measure again, with less running at the same time"
        )
    return peak


def _measure(step: Callable[[Mark], Any], given: Any, reset: Callable[[], Any] | None) -> Peak:
    if not callable(given):
        raise TypeError(f"what is measured is a function without arguments, not {type(given).__name__}: {given!r:.60}")
    if dispatch_mode_is_active():
        raise NotCompiledError("a TorchDispatchMode is active: compiled code would run eagerly. Measure outside of it")
    _prepare(reset)
    before = _gpu_allocations()
    step(lambda: None)
    # A CPU's step can take GPU memory while it compiles (Inductor's patterns are examples on the GPU, if there is one):
    # then the GPU's history of the second run is empty, and the CPU's tells.
    if _gpu_allocations() > before:
        _prepare(reset)
        if (peak := _watched(_on_gpu, step)).peak_nbytes:
            return peak
    _prepare(reset)
    return _watched(_on_cpu, step)


def _watched(run: Callable[[Callable[[Mark], Any]], "_Seen"], step: Callable[[Mark], Any]) -> Peak:
    with collector_off(), compilation(use_caches=True) as log:
        device, changes, allocated = run(step)
    return replace(_peak(device, changes), compiled_graphs=log.graph_calls, allocated_nbytes=allocated)


def _gpu_allocations() -> int:
    """How often the GPU's allocator has been asked so far."""
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0) if torch.cuda.is_initialized() else 0


def _prepare(reset: Callable[[], Any] | None) -> None:
    if reset is not None:
        reset()
    if torch.cuda.is_available():  # what lies in cycles may be gigabytes there; on a CPU a collection is only slow
        gc.collect()


@dataclass(frozen=True)
class _Change:
    """The allocator gave out (positive) or took back (negative) bytes; or, with an address of 0, a mark was passed."""

    address: int
    nbytes: int
    by: tuple[str, ...]
    call: int = 0
    """Which of the operations that the step calls was running; 0 for none."""


_Seen = tuple[str, list[_Change], int | None]
"""The device, what its allocator did, and a GPU's own count of the peak."""

_FORWARD_DONE, _STEP_DONE = "compile_lab: forward done", "compile_lab: step done"


def _peak(device: str, changes: Sequence[_Change]) -> Peak:
    live = most = 0
    marks: dict[str, int] = {}
    alive: dict[int, _Change] = {}
    at, at_peak = "nothing was allocated", {}
    curve: list[int] = []
    forward = 0
    for change in changes:
        live += change.nbytes
        if not change.address:
            marks[change.by[0]] = live
            forward = len(curve) if change.by[0] == _FORWARD_DONE else forward
        elif change.nbytes > 0:
            alive[change.address] = change
        else:
            alive.pop(change.address, None)
        if change.address:
            curve.append(live)
        if live > most:
            most, at, at_peak = live, change.by[-1], dict(alive)
    if _STEP_DONE not in marks:
        raise RuntimeError(
            "the profiler saw nothing of the step, not even its end: measure again, with less running at the same time"
        )
    allocations = tuple(Allocation(change.by, change.nbytes) for change in at_peak.values())
    between = _most_between_calls(changes) if device == "CPU" else None
    return Peak(
        device,
        most,
        marks.get(_FORWARD_DONE),
        marks[_STEP_DONE],
        at,
        allocations,
        curve=tuple(curve),
        forward_events=forward,
        between_calls_nbytes=between,
    )


def _most_between_calls(changes: Sequence[_Change]) -> int:
    """The peak of what outlives the operation that took it."""
    own: set[int] = set()
    taken: dict[int, int] = {}
    for at, change in enumerate(changes):
        if change.nbytes > 0:
            taken[change.address] = at
        elif change.address in taken:
            first = taken.pop(change.address)
            if change.call and changes[first].call == change.call:
                own |= {first, at}
    live = [0, *itertools.accumulate(0 if at in own else change.nbytes for at, change in enumerate(changes))]
    return max(live)


def _on_cpu(step: Callable[[Mark], Any]) -> _Seen:
    def mark(name: str = _FORWARD_DONE) -> None:
        with torch.profiler.record_function(name):
            pass

    with profiling("cpu", profile_memory=True) as profiler:
        result = step(mark)
        mark(_STEP_DONE)
    del result
    found: list[tuple[int, _Change]] = []
    waiting: list[tuple[Any, tuple[str, ...], int]] = [(each, ("Python",), 0) for each in profiler_events(profiler)]
    while waiting:
        event, inside, call = waiting.pop()
        if str(event.tag).endswith("Allocation"):
            fields = event.extra_fields
            if fields.device.type == "cpu":
                found.append((event.start_time_ns, _Change(fields.ptr, fields.alloc_size, inside, call)))
        elif event.name in (_FORWARD_DONE, _STEP_DONE):
            found.append((event.start_time_ns, _Change(0, 0, (event.name,))))
        elif event.name.startswith(("aten::", "prims::")) and event.name not in _ALLOCATE:
            inside = (*inside, event.name.replace("::", "."))
            call = call or event.start_time_ns
        waiting.extend((child, inside, call) for child in event.children)
    return "CPU", [change for _, change in sorted(found, key=lambda pair: pair[0])], None


_ALLOCATE = {f"aten::{name}" for name in ("empty", "empty_strided", "resize_")}
"""Operations that only allocate do so for the one that called them."""


def _on_gpu(step: Callable[[Mark], Any]) -> _Seen:
    marks: list[tuple[int, str]] = []

    def mark(name: str = _FORWARD_DONE) -> None:
        marks.append((len(history()), name))

    with peak("cuda") as memory, cuda_history() as history:
        result = step(mark)
        mark(_STEP_DONE)
        entries = history()
    del result
    changes = []
    for at, entry in enumerate(entries):
        changes += [_Change(0, 0, (name,)) for count, name in marks if count == at]
        if entry["action"] == "alloc":
            changes.append(_Change(entry["addr"], entry["size"], (_line(entry["frames"]),)))
        elif entry["action"] == "free_requested":
            changes.append(_Change(entry["addr"], -entry["size"], ()))
    changes += [_Change(0, 0, (name,)) for count, name in marks if count == len(entries)]
    return torch.cuda.get_device_name(), changes, memory.rise_nbytes


def _line(frames: list[dict[str, Any]]) -> str:
    """The innermost of the user's lines on a stack; the autograd engine's own thread has none."""
    lines = (Line(frame["filename"], frame["line"]) for frame in frames)
    return next((str(line) for line in lines if line.is_users), "backward")
