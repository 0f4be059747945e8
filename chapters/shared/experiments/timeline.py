"""When does the host issue, and when does the GPU compute? One call of MiniGPT, kernel by kernel, in three modes.

The host's calls that launch kernels and the kernels themselves, on the profiler's one clock. The profiler makes the
host slower, so what a call takes without it stands beside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from compile_lab.measure.timing import samples_us, summary_us
from compile_lab.measure.trace import Trace, profiled
from compile_lab.recordings import RecordedRow

from ...registry import Progress
from .. import subjects

MODES = ("eager", "default", "reduce-overhead")
BATCH, LENGTH = 8, 64
WARM_UP = 3
LONGEST_NAME = 100


@dataclass(frozen=True)
class LaunchedKernel:
    """What a GPU ran, and the host's call that launched it. Microseconds from the first launch on."""

    name: str
    launched_us: float
    launch_end_us: float
    start_us: float
    end_us: float


@dataclass(frozen=True)
class CallTimeline(RecordedRow):
    """One profiled call; ``median_us`` and the quartiles are of calls in a row without the profiler."""

    call: str
    """ "forward" (no gradients) or "training" (forward and backward)."""
    mode: str
    median_us: float
    low_us: float
    high_us: float
    kernels: tuple[LaunchedKernel, ...]

    @property
    def span_us(self) -> float:
        """From the first launch to the end of the last kernel, under the profiler."""
        return max((kernel.end_us for kernel in self.kernels), default=0.0)

    @property
    def busy_us(self) -> float:
        """For how long the GPU computed: kernels that overlap count once."""
        busy, until = 0.0, 0.0
        for kernel in sorted(self.kernels, key=lambda each: each.start_us):
            busy += max(0.0, kernel.end_us - max(kernel.start_us, until))
            until = max(until, kernel.end_us)
        return busy

    @property
    def launches(self) -> tuple[tuple[float, float], ...]:
        """The host's launching calls, each once, from and to: a CUDA graph has one for all of its kernels."""
        return tuple(sorted({(kernel.launched_us, kernel.launch_end_us) for kernel in self.kernels}))


def record(
    device: str, progress: Progress = iter, *, samples: int = 25, modes: Sequence[str] = MODES
) -> dict[str, Any]:
    """``{"subject", "timelines": [CallTimeline as a dict]}``: forward and training in each mode; under a minute.

    Raises RuntimeError where a GPU ran kernels and the profiler saw none. On a CPU, which has no queue, timelines have
    no kernels.
    """
    model = subjects.minigpt("mini", device)
    tokens, targets = subjects.tokens(model, BATCH, LENGTH)
    rows = []
    for name, mode in progress([(name, mode) for name in ("forward", "training") for mode in modes]):
        torch.compiler.reset()
        called = model if mode == "eager" else torch.compile(model, mode=mode, fullgraph=True)
        call = _call(name, called, tokens, targets)
        for _ in range(WARM_UP):
            call()
        spread = summary_us(samples_us(call, device, samples))
        kernels = kernels_of(profiled(call, device))
        if device == "cuda" and not kernels:
            raise RuntimeError(f"{name}, {mode}: the profiler saw no kernel on the GPU")
        row = asdict(CallTimeline(name, mode, **spread, kernels=kernels))
        rows.append({**row, "kernels": list(row["kernels"])})
    subject = f"MiniGPT, fp32, {BATCH} sequences of {LENGTH} tokens"
    return {"subject": subject, "timelines": rows}


def timelines(result: Mapping[str, Any], call: str, *modes: str) -> list[CallTimeline]:
    """Of what was recorded, the timelines of a call in these modes, in order; KeyError for one that is not there."""
    found = {(row["call"], row["mode"]): CallTimeline.from_json(row) for row in result["timelines"]}
    return [found[call, mode] for mode in modes]


def kernels_of(trace: Trace) -> tuple[LaunchedKernel, ...]:
    """The kernels whose launch is in the trace, by start, in microseconds from the first launch on."""
    launched = [(kernel, launch) for kernel in trace.kernels if (launch := trace.launch_of(kernel))]
    begin = min((launch.start_us for _, launch in launched), default=0.0)

    def since(moment_us: float) -> float:
        return round(moment_us - begin, 2)

    return tuple(
        LaunchedKernel(
            kernel.name[:LONGEST_NAME],
            since(launch.start_us),
            since(launch.end_us),
            since(kernel.start_us),
            since(kernel.end_us),
        )
        for kernel, launch in launched
    )


def _call(name: str, model: Any, tokens: torch.Tensor, targets: torch.Tensor) -> Callable[[], Any]:
    def forward() -> None:
        with torch.no_grad():
            model(tokens)

    def training() -> None:
        model.zero_grad(set_to_none=True)
        torch.compiler.cudagraph_mark_step_begin()
        model(tokens, targets).backward()

    return forward if name == "forward" else training
