"""torch's profiler: what ran in a step, on the host and on the GPU, and who launched it. ``profiled(step)`` says so."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from ..doors import door
from .chrome import exported, parsed
from .timing import wait

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or torch's profiler writes to stderr when it starts and stops

_INSTANT = "cpu_instant_event"
"""An allocation (``profile_memory``): no span, though torch's exporter in Python gives it a length of 0."""


@dataclass(frozen=True)
class TraceEvent:
    """A span of a trace: what ran, from when on and for how long. Microseconds on the trace's own clock."""

    kind: str
    """torch's word: kernel, gpu_memcpy, gpu_memset, cpu_op, user_annotation, cuda_runtime, cuda_driver, …"""
    name: str
    start_us: float
    duration_us: float
    process: int | str = 0
    """Of a kernel the device."""
    thread: int | str = 0
    """Of a kernel the stream."""
    args: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


@dataclass(frozen=True)
class Trace:
    """What the profiler saw of a step. ``base_ns``: where the trace's clock begins, on that of ``time.time_ns``."""

    events: tuple[TraceEvent, ...]
    base_ns: int = 0

    def of(self, *kinds: str) -> list[TraceEvent]:
        """The events of these kinds, as the trace has them."""
        return [event for event in self.events if event.kind in kinds]

    @cached_property
    def kernels(self) -> list[TraceEvent]:
        """What computed on a GPU, without copies and fills, by start."""
        return sorted(self.of("kernel"), key=lambda event: event.start_us)

    @cached_property
    def operators(self) -> list[TraceEvent]:
        """torch's operators on the host, and autograd's nodes."""
        return self.of("cpu_op")

    @cached_property
    def marks(self) -> list[TraceEvent]:
        """The program's own spans (``record_function``) on the host, and gloo's."""
        return self.of("user_annotation")

    @cached_property
    def launches(self) -> list[TraceEvent]:
        """The host's calls of CUDA: launches of kernels and of graphs, and all others."""
        return self.of("cuda_runtime", "cuda_driver")

    def launch_of(self, kernel: TraceEvent) -> TraceEvent | None:
        """The host's call that launched a kernel, on whatever thread; None if it is not in the trace."""
        return self._launches.get(kernel.args.get("correlation"))

    def operator_of(self, work: TraceEvent) -> TraceEvent | None:
        """The innermost operator in which a kernel, a copy or a fill was launched; None for one launched by no
        operator, as Triton's are."""
        return self._operators.get(work.args.get("External id"))

    @cached_property
    def _launches(self) -> dict[int | None, TraceEvent]:
        return {event.args["correlation"]: event for event in self.launches if "correlation" in event.args}

    @cached_property
    def _operators(self) -> dict[int | None, TraceEvent]:
        return {event.args["External id"]: event for event in self.operators if "External id" in event.args}


def profiling(device: str, **options: Any) -> profile:
    """torch's profiler of the host and, if the device is "cuda", of the GPU; ``options`` are its own."""
    on_gpu = [ProfilerActivity.CUDA] * (device == "cuda")
    return profile(activities=[ProfilerActivity.CPU, *on_gpu], acc_events=True, **options)


def profiled(step: Callable[[], Any], device: str = "cuda", *, calls: int = 1, **options: Any) -> Trace:
    """What ``step()`` runs on the host and, if the device is "cuda", on the GPU, which is waited for before and after.

    ``calls``: how many steps follow one another. ``options`` are the profiler's: ``record_shapes=True`` also notes the
    shapes that operators are given.
    """
    wait(device)
    with profiling(device, **options) as profiler:
        for _ in range(calls):
            step()
        wait(device)
    return read(profiler)


@door
def read(trace: "Trace | str | Path | Mapping[str, Any] | profile") -> Trace:
    """A chrome trace, by its path (``.json``, ``.json.gz``) or by what is in it, or of a profiler that has stopped.

    A profiler can be read again, and after an export of your own; its labels are the program's. In a file torch has
    changed some: each backslash is a slash, a new line is left out, and a label with a tab, another control character
    or a letter beyond ASCII is "unknown". Only the profiler itself, or ``export_chrome_trace(path,
    use_python_export=True)``, still has those.

    Raises TypeError for anything else, ValueError for a file that is broken, for what is no trace and for a profiler
    that has none.

    >>> from compile_lab.measure.trace import read
    >>> event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5, "dur": 20, "pid": 0, "tid": 7}
    >>> read({"traceEvents": [event]}).kernels
    [TraceEvent(kind='kernel', name='gemm', start_us=5, duration_us=20, process=0, thread=7)]
    """
    if isinstance(trace, Trace):
        return trace
    chrome = _chrome_trace(trace)
    listed = chrome.get("traceEvents") if isinstance(chrome, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("this is no chrome trace: it has no list under 'traceEvents'; export_chrome_trace writes one")
    spans = (event for event in listed if event.get("ph") == "X" and "dur" in event and event.get("cat") != _INSTANT)
    return Trace(tuple(map(_event, spans)), chrome.get("baseTimeNanoseconds", 0))


def _event(chrome: Mapping[str, Any]) -> TraceEvent:
    where = chrome.get("pid", 0), chrome.get("tid", 0)
    return TraceEvent(
        chrome.get("cat", ""), chrome["name"], chrome["ts"], chrome["dur"], *where, chrome.get("args", {})
    )


def _chrome_trace(trace: Any) -> Any:
    if isinstance(trace, Mapping):
        return trace
    if isinstance(trace, profile):
        return exported(trace)
    return parsed(Path(trace).read_bytes(), Path(trace).name)
