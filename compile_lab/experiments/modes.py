"""The models on which the modes are recorded, each case in a process of its own that has a time limit.

A case that is too slow, or breaks, is reported as stopped and why; the recording is written all the same. Only one
thing refuses it: a case whose compiled code did not run.
"""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from ..capture import NotCompiledError
from ..modes.cost import MODES, ModeCost, Step, measure_each
from . import subjects
from .registry import Progress

BUDGET_S = 560
"""All cases together: what has not begun by then is left out, and says so."""
START_S = 90
"""A process may take so long to import torch, build its model, and compile it once for nothing."""
LIMITED = {"test_configs.max_mm_configs": 4, "coordinate_descent_tuning": False}
"""max-autotune times four Triton tilings for each matrix product beside ATen's, not some twenty, and does not go on to
tune each kernel by itself, one after the other: that takes minutes for a training step."""
ORDER = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The cases that matter most come first, in case time runs out."""
LEAST_S = 20
"""With less left of the budget no case is begun."""


@dataclass(frozen=True)
class Workload:
    """A function of the device that builds it, what it is in words, and the seconds that one case may take."""

    build: Callable[[str], tuple[Callable[..., Any], tuple[Any, ...], Step]]
    what: str
    limit_s: float
    modes: tuple[str, ...] = ORDER
    limited: bool = True

    @property
    def search(self) -> dict[str, Any]:
        """Inductor's options that limit the search of the modes that search."""
        return LIMITED if self.limited else {}


def _inference(name: str, batch: int, length: int, dtype: torch.dtype) -> Callable[[str], tuple]:
    def build(device: str) -> tuple:
        model, batch_, length_ = (name, batch, length) if device == "cuda" else ("mini", min(batch, 8), 64)
        module = subjects.minigpt(model, device).eval().to(dtype)
        given, _ = subjects.tokens(module, batch_, length_)

        def step(compiled: Callable) -> torch.Tensor:
            with torch.no_grad():
                return compiled(given)

        return module, (given,), step

    return build


def training(device: str, vocabulary: int | None = None) -> tuple:
    """GPT-2 124M (on a CPU: MiniGPT), what it is called with, and a training step of which it is the compiled part."""
    module = subjects.minigpt("gpt2-124m" if device == "cuda" else "mini", device, vocabulary)
    given = subjects.tokens(module, 16 if device == "cuda" else 2)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)

    def step(compiled: Callable) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            loss = compiled(*given)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return module, given, step


_MINI = _inference("mini", 8, 64, torch.float32)
WORKLOADS: dict[str, Workload] = {
    "MiniGPT inference": Workload(_MINI, "MiniGPT, fp32, batch 8 of 64 tokens", 60),
    "GPT-2 inference, batch 1": Workload(
        _inference("gpt2-124m", 1, 128, torch.bfloat16), "GPT-2 124M, bf16, one sequence of 128 tokens", 70
    ),
    "GPT-2 training": Workload(
        training, "GPT-2 124M, a training step: bf16 autocast, fused AdamW, batch 16 of 1024 tokens", 120
    ),
    "GPT-2 inference, batch 32": Workload(
        _inference("gpt2-124m", 32, 1024, torch.bfloat16), "GPT-2 124M, bf16, batch 32 of 1024 tokens", 70
    ),
    "MiniGPT inference, whole search": Workload(
        _MINI,
        "MiniGPT, fp32, batch 8 of 64 tokens; nothing limits the search",
        220,
        ("eager", "max-autotune"),
        limited=False,
    ),
}
CPU_NOTE = "a try-out on a CPU: MiniGPT, batches of at most 8, 64 tokens"


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """Every mode on every workload, as plain JSON values; under ten minutes on a large GPU.

    Returns ``{"workloads": [{"name", "what", "search", "cases": [ModeCost as a dict]}], "budget_s"}``. A case
    that breaks its time limit, or comes to an error, has ``stopped``. Raises RuntimeError if compiled code did not run.
    """
    ends = time.monotonic() + budget_s
    cases: dict[str, list[dict[str, Any]]] = {name: [] for name in WORKLOADS}
    worker: Worker | None = None
    try:
        for name, mode in progress([(name, mode) for name, one in WORKLOADS.items() for mode in one.modes]):
            if worker is None or worker.name != name:
                worker = _replaced(worker, name, device)
            cases[name].append(asdict(_one(worker, mode, WORKLOADS[name].limit_s, ends)))
    finally:
        _replaced(worker)
    in_order = {name: sorted(found, key=lambda case: MODES.index(case["mode"])) for name, found in cases.items()}
    workloads = [
        {
            "name": name,
            "what": one.what if device == "cuda" else CPU_NOTE,
            "search": one.search,
            "cases": in_order[name],
        }
        for name, one in WORKLOADS.items()
    ]
    return {"workloads": workloads, "budget_s": budget_s}


def _replaced(old: "Worker | None", name: str = "", device: str = "") -> "Worker | None":
    if old is not None:
        old.stop()
    return Worker(name, device) if name else None


def _one(worker: "Worker", mode: str, limit_s: float, ends: float) -> ModeCost:
    left = ends - time.monotonic()
    if left < LEAST_S:
        return ModeCost(mode, stopped="not begun: the recording's time was used up")
    return worker.ask(mode, min(limit_s, left))


class Worker:
    """A process that has built one workload and measures one mode after the other, as it is asked.

    It is started when it is asked first, and again after it was stopped.
    """

    def __init__(self, name: str, device: str) -> None:
        self.name, self.device = name, device
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def ask(self, mode: str, limit_s: float) -> ModeCost:
        """One mode's cost; stopped, with the reason, after ``limit_s`` seconds or if the process comes to an end.

        Raises RuntimeError if the compiled code did not run.
        """
        try:
            if self._process is None:
                self._start()
            self._pipe.send(mode)
            if not self._pipe.poll(limit_s):
                self.stop()
                return ModeCost(mode, stopped=f"stopped after {limit_s:.0f} s, its time limit")
            kind, answer = self._pipe.recv()
        except (EOFError, OSError):
            code = self._process.exitcode if self._process else None
            self.stop()
            return ModeCost(mode, stopped=f"its process came to an end (exit code {code})")
        if kind == "refused":
            raise RuntimeError(f"{self.name}, {mode}: {answer}")
        return answer

    def stop(self) -> None:
        """End the process, and those it has started to compile kernels."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = self._pipe = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # fork and CUDA do not go together
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.name, self.device), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(START_S):
            raise EOFError
        self._pipe.recv()


def _serve(pipe: Connection, name: str, device: str) -> None:
    """The child: build the workload, then measure each mode that is asked for."""
    with contextlib.suppress(OSError):
        os.setsid()  # so that stopping it stops its compile workers too
    workload = WORKLOADS[name]
    fn, args, step = workload.build(device)
    _wake(fn, step, device)
    with contextlib.suppress(EOFError, OSError):  # nobody is listening any more
        pipe.send(name)
        while True:
            pipe.send(_answer(workload, fn, args, step, mode=pipe.recv()))


def _wake(fn: Callable, step: Step, device: str) -> None:
    """Compile it once for nothing: modules and workers are what a process pays once, and no mode owes them.

    What is measured then has empty caches of its own.
    """
    step(torch.compile(fn))
    torch.compiler.reset()
    if device == "cuda":
        torch.cuda.empty_cache()  # or the first mode's memory would be more


def _answer(workload: Workload, fn: Callable, args: tuple, step: Step, mode: str) -> tuple[str, Any]:
    options = workload.search if mode.startswith("max-autotune") else None
    try:
        (cost,) = measure_each(fn, *args, modes=[mode], step=step, options=options)
    except NotCompiledError as error:
        return "refused", str(error)
    except Exception as error:
        return "measured", ModeCost(
            mode, stopped=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.200}"
        )
    return "measured", cost
