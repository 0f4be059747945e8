"""Did CUDA graphs run, and if not, why? What one call launches, and what torch says when it steps aside.

A kernel costs the CPU some microseconds to launch. A CUDA graph is a recording of many launches that is started with
one. torch makes them in the modes ``reduce-overhead`` and ``max-autotune``, and skips them where it must.
"""

import contextlib
import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .._torch.inductor import inductor_modes


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
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        found = launches(json.loads(file.read_text(encoding="utf-8")), calls)
    return found if found.kernels else None


def launches(trace: Mapping[str, Any], calls: int) -> Launches:
    """The launches of one call, from a trace of ``calls`` calls in the profiler's format (Chrome's trace events)."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    kernels = [event["dur"] for event in events if event.get("cat") == "kernel"]
    runtime = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    single = [event["dur"] for event in runtime if re.match(r"(cuda|cu)LaunchKernel", event["name"])]
    graphs = [event["dur"] for event in runtime if re.match(r"(cuda|cu)GraphLaunch", event["name"])]

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


def status(asked: bool, device: str, seen: Launches | None, reasons: tuple[str, ...]) -> str:
    """One line: whether CUDA graphs ran, by what the profiler saw, and torch's reasons if it skipped any."""
    if not asked:
        return "not asked for"
    if device != "cuda":
        return "none: the mode asks for CUDA graphs, and a CPU has none; the code is that of the mode without them"
    why = "; ".join(reasons)
    if seen is None:
        return f"unknown: the profiler saw no kernel{'; skipped: ' * bool(why)}{why}"
    if seen.graphs:
        return f"used in part, the rest skipped: {why}" if why else "used"
    return f"skipped: {why or 'torch gives no reason'}"
