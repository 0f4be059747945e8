"""Did CUDA graphs run, and if not, why? What one call launches, and what torch says when it steps aside.

A kernel costs the CPU some microseconds to launch. A CUDA graph is a recording of many launches that is started with
one. torch makes them in the modes ``reduce-overhead`` and ``max-autotune``, and skips them where it must.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .._torch.inductor import inductor_modes
from ..measure.trace import Trace, profiled


@dataclass(frozen=True)
class Launches:
    """One call as the profiler saw it.

    ``kernels`` ran on the GPU and kept it busy for ``gpu_ms``; the CPU started them with ``launches`` of one kernel
    each and ``graphs`` launches of a whole CUDA graph, which took it ``launch_ms``.
    """

    kernels: float
    gpu_ms: float
    launches: float
    graphs: float
    launch_ms: float


def count_launches(call: Callable[[], Any], calls: int = 3) -> Launches | None:
    """What one call launches on the GPU: the mean of a few, under torch's profiler. None if it sees no kernel."""
    trace = profiled(call, calls=calls)
    return launches(trace, calls) if trace.kernels else None


def launches(trace: Trace, calls: int) -> Launches:
    """The launches of one call, from a trace of ``calls`` calls."""
    kernels = [kernel.duration_us for kernel in trace.kernels]
    single, graphs = (
        [launch.duration_us for launch in trace.launches if re.match(rf"(cuda|cu){what}", launch.name)]
        for what in ("LaunchKernel", "GraphLaunch")
    )

    def mean(total: float) -> float:
        return round(total / calls, 4)

    gpu_ms, launch_ms = sum(kernels) / 1e3, (sum(single) + sum(graphs)) / 1e3
    return Launches(mean(len(kernels)), mean(gpu_ms), mean(len(single)), mean(len(graphs)), mean(launch_ms))


@contextlib.contextmanager
def skip_reasons() -> Iterator[list[str]]:
    """Keep torch's reasons for skipping CUDA graphs while the block runs: a list, one entry a reason, in its words.

    They are kept from stderr, where torch would write them.
    """
    keeper, log = _Keeper(), inductor_modes().cudagraphs_log
    log.addFilter(keeper)
    try:
        yield keeper.reasons
    finally:
        log.removeFilter(keeper)


class _Keeper(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        reason = readable_reason(record.getMessage())
        if record.levelno >= logging.WARNING and reason not in self.reasons:
            self.reasons.append(reason)
        return False


def readable_reason(message: str) -> str:
    """A reason to skip, from torch's message: without its preamble, without stack traces and places of this machine.

    "skipping cudagraphs due to mutated inputs (1 instances). Found from : …" becomes "mutated inputs (1 instances)".
    """
    said = re.split(r"\.? ?Found from", message)[0].partition("\n")[0]
    said = re.sub(r"^(skipping cudagraphs due to )+", "", said.strip())
    listed = re.fullmatch(r"\[(.*)\]", said)
    if listed:
        said = "; ".join(part.strip().strip("'\"") for part in re.split(r"['\"], ['\"]", listed[1]))
    return said.strip().rstrip(".") or "torch gives no reason"


def status(requested: bool, device: str, seen: Launches | None, reasons: tuple[str, ...]) -> str:
    """One line: whether CUDA graphs ran, by what the profiler saw, and torch's reasons if it skipped any."""
    if not requested:
        return "not requested"
    if device != "cuda":
        return "none: the mode asks for CUDA graphs, and a CPU has none; the code is that of the mode without them"
    why = "; ".join(reasons)
    if seen is None:
        return f"unknown: the profiler saw no kernel{'; skipped: ' * bool(why)}{why}"
    if seen.graphs:
        return f"used in part, the rest skipped: {why}" if why else "used"
    return f"skipped: {why or 'torch gives no reason'}"
