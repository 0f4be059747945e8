"""What does each mode of torch.compile cost, and what does it give? ``measure(fn, *args, mode=...)`` says so.

A mode is a name for a few options of Inductor. What it costs is compile time, cold and warm; what it gives is time per
call, fewer kernels, fewer launches. Nothing is reported of compiled code that did not run.
"""

import contextlib
import gc
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .._torch.dynamo import dynamo_utils, reset_dynamo
from .._torch.inductor import cache_folder, compile_workers_ready, inductor_modes, searches_heard
from ..capture import KernelsWritten, compilation
from ..doors import door
from ..inductor.wrapper import Wrapper
from ..measure.allocator import peak
from ..measure.host import HostCost
from ..measure.timing import collector_off, distinct, fp32_meant, samples_us, summary_us, wait
from ..recordings import RecordedRow, Recording
from .cuda_graphs import Launches, count_launches, skip_reasons, status

MODES = ("eager", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
WARM_UP_CALLS = 3
"""The first call compiles and, with CUDA graphs, warms up; the second records the graph; the third replays it."""
PHASES = ("Dynamo", "AOTAutograd", "Inductor", "kernels", "first calls")

Step = Callable[[Callable[..., Any]], Any]


@dataclass(frozen=True)
class Quartiles:
    """Milliseconds a call: the median of the samples, and their quartiles."""

    median_ms: float
    low_ms: float
    high_ms: float

    @classmethod
    def of_us(cls, samples_us: Sequence[float]) -> "Quartiles":
        """From the samples, in microseconds."""
        return cls(*(round(value / 1e3, 5) for value in summary_us(samples_us).values()))


@dataclass(frozen=True)
class CompileTime:
    """What the first calls cost beyond what as many later calls cost.

    ``phases_s`` divides it: Dynamo, AOTAutograd, Inductor, kernels (building them, with g++ or Triton, or loading
    them from the cache) and first calls: what was not compiling, such as tuning on the real data and recording CUDA
    graphs. Where it was compiled several times, each time from nothing, ``runs_s`` has all of them, and the rest is
    that of the middle one.
    """

    seconds: float
    phases_s: Mapping[str, float]
    runs_s: tuple[float, ...] = ()

    @property
    def low_s(self) -> float:
        """The shortest of the times that it took."""
        return min(self.runs_s, default=self.seconds)

    @property
    def high_s(self) -> float:
        """The longest."""
        return max(self.runs_s, default=self.seconds)


@dataclass(frozen=True)
class Search:
    """One operator for which max-autotune timed kernels: how many, and the quickest of the library's and of Triton's.

    A time is None where there was none of that kind.
    """

    operator: str
    timed: int
    library_ms: float | None
    triton_ms: float | None

    @classmethod
    def of(cls, operator: str, timings: Mapping[str, float]) -> "Search":
        """From each kernel's milliseconds by its name: Triton's begin with that word. What failed is infinite."""
        kinds: dict[bool, list[float]] = {True: [], False: []}
        for name, ms in timings.items():
            if math.isfinite(ms):
                kinds[name.startswith("triton")].append(round(ms, 6))
        return cls(operator, sum(map(len, kinds.values())), *(min(kinds[kind], default=None) for kind in (False, True)))


@dataclass(frozen=True)
class ModeCost(RecordedRow):
    """One mode on one workload. What was not measured is None; ``stopped`` says why, if the case came to no end.

    ``kernels`` counts, on a CPU, the generated kernels that one call runs (ATen's own come on top); ``launches`` what
    one call starts on a GPU. ``peak_nbytes`` is the
    allocator's largest sum of live tensors during the timed calls, ``reserved_nbytes`` what it held of the GPU: the
    memory of a CUDA graph counts in the second only. ``searches``: what max-autotune timed. ``host``: what a call
    costs the host, where that was asked for.
    """

    mode: str
    call: Quartiles | None = None
    cold: CompileTime | None = None
    warm: CompileTime | None = None
    kernels: int | None = None
    launches: Launches | None = None
    peak_nbytes: int | None = None
    reserved_nbytes: int | None = None
    cuda_graphs: str = ""
    stopped: str = ""
    searches: tuple[Search, ...] = ()
    host: HostCost | None = None

    def speedup(self, eager: "ModeCost") -> float | None:
        """How many calls of this one fit into one call of ``eager``; None if either came to no end."""
        if self.call is None or eager.call is None:
            return None
        return eager.call.median_ms / self.call.median_ms

    def total_s(self, calls: float, start: str = "cold") -> float:
        """Seconds for compiling, cold or warm, and so many calls; infinite if that was not measured."""
        compiled = {"cold": self.cold, "warm": self.warm}[start]
        if self.call is None or (compiled is None and self.mode != "eager"):
            return math.inf
        return (compiled.seconds if compiled else 0.0) + calls * self.call.median_ms / 1e3

    def break_even(self, eager: "ModeCost", start: str = "cold") -> int | None:
        """After how many calls compiling has paid: see ``break_even_calls``. ``start`` is "cold" or "warm"."""
        compiled = {"cold": self.cold, "warm": self.warm}[start]
        if compiled is None or self.call is None or eager.call is None:
            return None
        return break_even_calls(compiled.seconds, eager.call.median_ms, self.call.median_ms)

    def break_even_ends(self, eager: "ModeCost", start: str = "cold") -> tuple[int | None, int | None] | None:
        """The same at the earliest and at the latest: with the quartiles of the calls, and the compile times that came.

        None where it was compiled a single time: then nobody knows how another time would be.
        """
        compiled = {"cold": self.cold, "warm": self.warm}[start]
        if compiled is None or len(compiled.runs_s) < 2 or self.call is None or eager.call is None:
            return None
        earliest = break_even_calls(compiled.low_s, eager.call.high_ms, self.call.low_ms)
        return earliest, break_even_calls(compiled.high_s, eager.call.low_ms, self.call.high_ms)


@dataclass(frozen=True)
class Comparison:
    """All modes on one workload: ``what`` it is in words, ``search`` the options that limited max-autotune's search."""

    name: str
    what: str
    costs: Mapping[str, ModeCost]
    provenance: object
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def eager(self) -> ModeCost:
        return self.costs["eager"]

    @property
    def done(self) -> dict[str, ModeCost]:
        """The cases that came to an end, eager among them."""
        return {mode: cost for mode, cost in self.costs.items() if cost.call}

    def started(self, start: str) -> dict[str, ModeCost]:
        """Those of which that start, "cold" or "warm", was measured, and eager."""
        return {mode: cost for mode, cost in self.done.items() if mode == "eager" or getattr(cost, start)}

    @property
    def limits(self) -> str:
        """What limited max-autotune's search, in words; empty if nothing did."""
        said = []
        if most := self.search.get("test_configs.max_mm_configs"):
            said.append(f"at most {most} configurations for a matmul")
        if self.search.get("coordinate_descent_tuning") is False:
            said.append("no coordinate descent")
        return ", ".join(said)

    def named(self, mode: str) -> str:
        """The mode, and that its search was limited where it was."""
        return f"{mode} (limited search)" if self.limits and mode.startswith("max-autotune") else mode

    def speedup(self, mode: str) -> float | None:
        """Eager's time per call over this mode's; None if it was not measured."""
        return self.costs[mode].speedup(self.eager) if mode in self.costs else None

    @property
    def fastest(self) -> str:
        """The mode with the least median time per call."""
        medians = {mode: cost.call.median_ms for mode, cost in self.costs.items() if cost.call}
        return min(medians, key=medians.__getitem__)

    def best_after(self, calls: int, start: str = "cold") -> str:
        """The mode with the least time for compiling and ``calls`` calls together. ``start``: "cold" or "warm".

        Of modes that are less than 2 % apart it is the one that switches on least: such differences come and go. A mode
        whose calls cannot be told from eager's is none.
        """
        total_s = {
            mode: cost.total_s(calls, start)
            for mode, cost in self.done.items()
            if cost.call and (mode == "eager" or not self.eager.call or distinct(cost.call, self.eager.call))
        }
        return next(mode for mode in MODES if total_s.get(mode, math.inf) <= 1.02 * min(total_s.values()))


@door
def compared(recording: Recording) -> dict[str, Comparison]:
    """The workloads of a recording of modes, by name.

    >>> from compile_lab.modes import compared
    >>> from compile_lab.recordings import load
    >>> compared(load("modes", "NVIDIA H200"))["GPT-2 training"].what
    'GPT-2 124M, a training step: bf16 autocast, fused AdamW, batch 16 of 1024 tokens'
    """
    return {
        one["name"]: Comparison(
            one["name"],
            one["what"],
            {case["mode"]: ModeCost.from_json(case) for case in one["cases"]},
            recording.provenance,
            one["search"],
        )
        for one in recording.result["workloads"]
    }


@door
def break_even_calls(compile_s: float, eager_ms: float, compiled_ms: float) -> int | None:
    """The smallest n with compile_s + n · compiled_ms ≤ n · eager_ms; None if compiled calls save nothing.

    Raises ValueError for a time that is not positive and finite (compile_s may be zero).

    >>> from compile_lab.modes.cost import break_even_calls
    >>> break_even_calls(compile_s=20, eager_ms=5, compiled_ms=3)
    10000
    >>> print(break_even_calls(compile_s=20, eager_ms=5, compiled_ms=5))
    None
    """
    for name, value in (("compile_s", compile_s), ("eager_ms", eager_ms), ("compiled_ms", compiled_ms)):
        if not math.isfinite(value) or value < 0 or (value == 0 and name != "compile_s"):
            raise ValueError(f"{name} is {value}; break-even needs positive times")
    saved_ms = eager_ms - compiled_ms
    return None if saved_ms <= 0 else math.ceil(compile_s * 1e3 / saved_ms)


@door
def mode_options(mode: str) -> dict[str, Any]:
    """The options of Inductor that a mode of torch.compile stands for. ValueError for an unknown one.

    >>> from compile_lab.modes.cost import mode_options
    >>> mode_options("default"), mode_options("reduce-overhead")
    ({}, {'triton.cudagraphs': True})
    """
    if mode not in MODES[1:]:
        raise ValueError(f"unknown mode {mode!r}; the modes of torch.compile are {', '.join(MODES[1:])}")
    return dict(inductor_modes().list_mode_options(mode))


@door
def measure(
    fn: Callable[..., Any],
    *args: Any,
    mode: str,
    step: Step | None = None,
    cold: bool = True,
    options: Mapping[str, Any] | None = None,
    folders: Sequence[Path] = (),
) -> ModeCost:
    """What ``fn(*args)`` costs in ``mode``: "eager", or a mode of torch.compile.

    ``step(compiled)`` makes one call instead of ``compiled(*args)``, for a training step of which only a part is
    compiled. ``options`` are Inductor options on top of the mode's own, to limit a search.

    Cold means: an empty cache folder and empty caches in this process, but the compiler loaded, its workers awake and
    its C++ headers precompiled. Warm means: the same again after ``torch.compiler.reset()``, from the folder that the
    last cold time filled, as a restarted program finds it. ``folders``, empty ones, are used for so many cold times,
    and stay. With ``cold=False`` the standing cache folder is used and only the warm time reported. Compiled code of
    earlier calls is forgotten, before and after.

    Raises ValueError for an unknown mode, TypeError if ``fn`` cannot be called, NotCompiledError (a RuntimeError)
    if no compiled graph ran, and whatever ``fn`` raises.

    >>> import torch
    >>> from compile_lab.modes import measure
    >>> cost = measure(torch.nn.Linear(4, 4), torch.ones(2, 4), mode="eager")
    >>> cost.cold, cost.call.low_ms <= cost.call.median_ms <= cost.call.high_ms
    (None, True)
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    step = step or (lambda compiled: compiled(*args))
    device = device_of(fn, args)
    try:
        if mode == "eager":
            return ModeCost(mode, **_settled(lambda: step(fn), device), cuda_graphs="not requested")
        if folders or not cold:
            return _compiled(fn, step, mode, device, folders if cold else (), options)
        with tempfile.TemporaryDirectory() as folder:
            return _compiled(fn, step, mode, device, [Path(folder)], options)
    finally:
        reset_dynamo()
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()  # or this case's memory would count as the next one's


def measure_each(fn: Callable[..., Any], *args: Any, modes: Sequence[str] = MODES, **settings: Any) -> list[ModeCost]:
    """``measure`` for each mode. A case that runs out of memory is reported as stopped, and the others go on."""
    return [_or_out_of_memory(fn, *args, mode=mode, **settings) for mode in modes]


def _or_out_of_memory(fn: Callable[..., Any], *args: Any, mode: str, **settings: Any) -> ModeCost:
    try:
        return measure(fn, *args, mode=mode, **settings)
    except torch.OutOfMemoryError as error:
        return ModeCost(mode, stopped=f"out of memory: {str(error).partition('. ')[0]}")


def device_of(fn: Callable[..., Any], args: Sequence[Any] = ()) -> str:
    """ "cuda" if a tensor among the arguments, or one that the module holds, is on a GPU, else "cpu"."""
    held = itertools.chain(fn.parameters(), fn.buffers()) if isinstance(fn, torch.nn.Module) else ()
    tensors = [value for value in (*args, *held) if isinstance(value, torch.Tensor)]
    return "cuda" if any(tensor.is_cuda for tensor in tensors) else "cpu"


def _compiled(
    fn: Callable[..., Any],
    step: Step,
    mode: str,
    device: str,
    folders: Sequence[Path],
    options: Mapping[str, Any] | None,
) -> ModeCost:
    def first_calls() -> tuple[float, dict[str, float]]:
        reset_dynamo()
        inductor_modes().clear_caches()
        compiled = torch_compile(fn, mode, options)
        return _first_calls(lambda: step(compiled), device)

    with skip_reasons() as reasons, fp32_meant():
        cold, searched = [], []
        for folder in folders:
            with cache_folder(folder), searches_heard() as heard:
                wake_compiler(device)
                cold.append(first_calls())
            searched = heard
        if not folders:
            wake_compiler(device)
            first_calls()  # fills the standing folder
        with cache_folder(folders[-1]) if folders else contextlib.nullcontext():
            reset_dynamo()
            inductor_modes().clear_caches()
            compiled = torch_compile(fn, mode, options)
            reasons.clear()
            warm = _first_calls(lambda: step(compiled), device)
            kernels = _proved(fn, step, compiled, mode, device, options)
            settled = _settled(lambda: step(compiled), device)
    asked = bool(mode_options(mode).get("triton.cudagraphs"))
    return ModeCost(
        mode,
        cold=_middle([_beyond(*run, settled["call"]) for run in cold]) if cold else None,
        warm=_beyond(*warm, settled["call"]),
        kernels=kernels,
        cuda_graphs=status(asked, device, settled.get("launches"), tuple(reasons)),
        searches=tuple(Search.of(*each) for each in searched),
        **settled,
    )


def _middle(runs: Sequence[CompileTime]) -> CompileTime:
    """The middle one of several cold times, which knows all of them."""
    ordered = sorted(runs, key=lambda run: run.seconds)
    middle = ordered[len(ordered) // 2]
    return replace(middle, runs_s=tuple(run.seconds for run in runs))


def _proved(
    fn: Callable, step: Step, compiled: Callable, mode: str, device: str, options: Mapping | None
) -> int | None:
    """Proof that a compiled graph runs, or RuntimeError; on a CPU also how many generated kernels its code calls."""
    if device != "cuda":
        reset_dynamo()  # what Inductor wrote is told while it compiles, or while it loads what it compiled
        compiled = torch_compile(fn, mode, options)
    with compilation(use_caches=True) as log:
        step(compiled)
    log.require_compiled()
    if device == "cuda" or (options or {}).get("cpp_wrapper"):  # a wrapper in C++ is not read
        return None
    return sum(len(Wrapper.of(event.code).launches) for event in log.of(KernelsWritten))


def torch_compile(fn: Callable[..., Any], mode: str, options: Mapping[str, Any] | None) -> Callable[..., Any]:
    """``fn`` compiled in a mode, with options on top of the mode's own; itself for "eager"."""
    if mode == "eager":
        return fn
    if not options:
        return torch.compile(fn, mode=mode)
    return torch.compile(fn, options={**mode_options(mode), **options})  # torch takes a mode or options, not both


def wake_compiler(device: str, size: int = 8) -> None:
    """Compile something small: modules, workers and headers are needed once, whatever is compiled.

    Another ``size`` is compiled again where nothing has been forgotten since.
    """
    if device == "cuda":
        compile_workers_ready()
    torch.compile(lambda x: x + 1, dynamic=False)(torch.ones(size, device=device))


@contextlib.contextmanager
def from_nothing(device: str, size: int = 8) -> Iterator[None]:
    """In the block Inductor's caches begin empty, in memory and in a folder; the compiler is awake."""
    inductor_modes().clear_caches()
    with inductor_modes().fresh_cache(), fp32_meant():
        wake_compiler(device, size)
        yield


def _first_calls(call: Callable[[], Any], device: str) -> tuple[float, dict[str, float]]:
    """Seconds that the first calls took, and the part of each phase of compiling."""
    dynamo_utils.clear_compilation_metrics()
    wait(device)
    start = time.perf_counter()
    for _ in range(WARM_UP_CALLS):
        call()
    wait(device)
    seconds = time.perf_counter() - start
    return seconds, phases(dynamo_utils.get_compilation_metrics())


def phases(metrics: Sequence[Any]) -> dict[str, float]:
    """Seconds spent in each phase, from torch's own metrics of each compilation (``CompilationMetrics``).

    torch measures whole stages, one inside the other: Dynamo calls AOTAutograd, that calls Inductor, that builds
    kernels. Here each phase has its own time alone, and they add up to the whole. A backward pass that is compiled
    when it is first called is reported by itself, with no Dynamo in it. What it measures at run time is left out.
    """
    seconds = dict.fromkeys(PHASES[:-1], 0.0)
    for one in metrics:
        if getattr(one, "is_runtime", False):
            continue
        whole = _s(one.duration_us)
        aot = whole if one.is_forward is False else min(whole, _s(one.aot_autograd_cumulative_compile_time_us))
        inductor = min(aot, _s(one.inductor_cumulative_compile_time_us))
        # On a cache hit Inductor does nothing, and kernels are loaded by AOTAutograd's cache.
        kernels = min(inductor or aot, _s(one.triton_compile_time_us))
        seconds["Dynamo"] += whole - aot
        seconds["AOTAutograd"] += aot - (inductor or kernels)
        seconds["Inductor"] += max(0.0, inductor - kernels)
        seconds["kernels"] += kernels
    return seconds


def _s(microseconds: int | None) -> float:
    return (microseconds or 0) / 1e6


def _beyond(seconds: float, parts: dict[str, float], call: Quartiles) -> CompileTime:
    """What the first calls took beyond as many later ones; what no phase accounts for is the first calls' own."""
    beyond = seconds - WARM_UP_CALLS * call.median_ms / 1e3
    parts = {**parts, "first calls": max(0.0, beyond - sum(parts.values()))}
    return CompileTime(round(sum(parts.values()), 3), {name: round(value, 3) for name, value in parts.items()})


def _settled(call: Callable[[], Any], device: str) -> dict[str, Any]:
    """The fields of a case that are measured once all is compiled: time per call and, on a GPU, launches and memory."""
    for _ in range(WARM_UP_CALLS):
        call()
    wait(device)
    gc.collect()
    with peak(device) as memory, collector_off():
        spread = Quartiles.of_us(samples_us(call, device))
    if device != "cuda":
        return {"call": spread}
    taken = {"peak_nbytes": memory.peak_nbytes, "reserved_nbytes": memory.reserved_nbytes}
    return {"call": spread, **taken, "launches": count_launches(call)}
