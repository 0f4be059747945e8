"""The models on which the modes are recorded: what each mode costs in turn, then the calls of all of them side by side.

A workload has a process of its own, in which its modes are compiled in random order, each from empty cache folders and
several times. Afterwards all are compiled once more from what their folders hold, and are timed round by round, in
another order each round, so that the host and the GPU are the same for all. A case that is too slow, or breaks, is
reported as stopped and why; the recording is written all the same. Only one thing refuses it: a case whose compiled
code did not run.
"""

import contextlib
import functools
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from compile_lab._torch.inductor import cache_folder, compile_workers_ready
from compile_lab.capture import NotCompiledError
from compile_lab.measure.child import Child
from compile_lab.measure.host import host_cost
from compile_lab.measure.timing import in_turn_us
from compile_lab.modes.cost import MODES, WARM_UP_CALLS, ModeCost, Quartiles, Step, measure_each, torch_compile

from ...experiment import OUT_OF_TIME, reason
from ...registry import Progress
from ...shared import subjects

BUDGET_S = {"cuda": 560, "cpu": 900}
"""All cases together: what has not begun by then is left out, and says so."""
START_S = 90
"""A process may take so long to import torch, build its model, and compile it once for nothing."""
TURNS_S = 60
"""And so long to time all its modes side by side."""
TILES_ONLY = {"coordinate_descent_tuning": False}
"""max-autotune times every tiling that Inductor has for a matmul, and does not go on to tune each kernel by
itself, one setting after the other: for a large model that takes many minutes."""
RECORDED = tuple(mode for mode in MODES if mode != "max-autotune-no-cudagraphs")
LEAST_S = 20
"""With less left of the budget no case is begun."""


@dataclass(frozen=True)
class Workload:
    """A function of the device that builds it, what it is in words, and the seconds that one case may take.

    ``search``: Inductor's options that limit max-autotune's search here. ``colds``: how often a mode is compiled from
    nothing; one that searches is compiled once.
    """

    build: Callable[[str], tuple[Callable[..., Any], tuple[Any, ...], Step]]
    what: str
    limit_s: float
    search: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[str, ...] = RECORDED
    colds: int = 3

    def times(self, mode: str) -> int:
        """How often a mode is compiled from nothing."""
        return 1 if mode.startswith("max-autotune") else self.colds


def _inference(name: str, batch: int, length: int, dtype: torch.dtype) -> Callable[[str], tuple]:
    def build(device: str) -> tuple:
        large = device == "cuda" and name == "gpt2"
        module = (subjects.gpt2(device) if large else subjects.minigpt("mini", device)).eval().to(dtype)
        given, _ = subjects.tokens(module, *((batch, length) if device == "cuda" else (min(batch, 8), 64)))
        return module, (given,), subjects.inference_step(given)

    return build


def training(device: str, vocabulary: int | None = None) -> tuple:
    """GPT-2 124M (on a CPU: MiniGPT), what it is called with, and a training step of which it is the compiled part.

    ``vocabulary`` takes the place of the padded one.
    """
    large = device == "cuda"
    module = (
        subjects.gpt2(device, vocabulary or subjects.GPT2_PADDED)
        if large
        else subjects.minigpt("mini", device, vocabulary)
    )
    given = subjects.tokens(module, 16 if large else 2)
    return module, given, subjects.training_step(module, *given)


WORKLOADS: dict[str, Workload] = {
    "GPT-2 inference, batch 1": Workload(
        _inference("gpt2", 1, 128, torch.bfloat16), "GPT-2 124M, bf16, one sequence of 128 tokens", 150
    ),
    "GPT-2 training": Workload(
        training,
        "GPT-2 124M, a training step: bf16 autocast, fused AdamW, batch 16 of 1024 tokens",
        120,
        TILES_ONLY,
        ("eager", "default", "reduce-overhead"),  # a search of its tilings alone had not ended after 150 s
        colds=2,
    ),
    "MiniGPT inference": Workload(_inference("mini", 8, 64, torch.float32), "MiniGPT, fp32, batch 8 of 64 tokens", 100),
    "GPT-2 inference, batch 32": Workload(
        _inference("gpt2", 32, 1024, torch.bfloat16), "GPT-2 124M, bf16, batch 32 of 1024 tokens", 100, TILES_ONLY
    ),
}
"""Those that matter most come first, in case time runs out."""
SHOWN = ("MiniGPT inference", "GPT-2 inference, batch 1", "GPT-2 training", "GPT-2 inference, batch 32")
CPU_NOTE = "a try-out on a CPU: MiniGPT, batches of at most 8, 64 tokens"


def record(
    device: str, progress: Progress = iter, *, budget_s: float | None = None, names: tuple[str, ...] = tuple(WORKLOADS)
) -> dict[str, Any]:
    """Every mode on the workloads of these names, as plain JSON values; nine minutes on a large GPU.

    Returns ``{"workloads": [{"name", "what", "search", "cases": [ModeCost as a dict], "order", "together"}],
    "budget_s", "vocabulary"}``: ``order`` is the one in which the modes were compiled, ``together`` is empty, or why
    they were not timed side by side. A case that breaks its time limit, or comes to an error, has ``stopped``.
    Raises RuntimeError if compiled code did not run.
    """
    budget_s = BUDGET_S[device] if budget_s is None else budget_s
    ends, found = time.monotonic() + budget_s, {}
    for name in progress(names):
        found[name] = _workload(name, device, ends)
    rows = [found[name] for name in SHOWN if name in found]
    return {"workloads": rows, "budget_s": budget_s, "vocabulary": subjects.GPT2_PADDED}


def _workload(name: str, device: str, ends: float) -> dict[str, Any]:
    one = WORKLOADS[name]
    order = list(one.modes)
    random.Random(name).shuffle(order)
    worker = Worker(name, device)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            costs = {mode: _one(worker, mode, root, one.limit_s, ends) for mode in order}
            done = [mode for mode in order if costs[mode].call]
            turns, why = worker.together(done, root) if done else ({}, "nothing was measured")
    finally:
        worker.stop()
    costs |= {mode: replace(costs[mode], **turn) for mode, turn in turns.items()}
    return {
        "name": name,
        "what": one.what if device == "cuda" else CPU_NOTE,
        "search": dict(one.search),
        "cases": [asdict(costs[mode]) for mode in one.modes],
        "order": order,
        "together": why,
    }


def _one(worker: "Worker", mode: str, root: str, limit_s: float, ends: float) -> ModeCost:
    left = ends - time.monotonic()
    if left < LEAST_S:
        return ModeCost(mode, stopped=OUT_OF_TIME)
    return worker.cost(mode, root, min(limit_s, left))


class Worker:
    """A process that has built one workload and measures one mode after the other, as it is asked.

    It is started when it is asked first, and again after it was stopped.
    """

    def __init__(self, name: str, device: str) -> None:
        self.name, self.device = name, device
        self._child: Child | None = None

    def cost(self, mode: str, root: str, limit_s: float) -> ModeCost:
        """One mode's cost, its caches in folders under ``root``; stopped, with the reason, if it came to no end.

        Raises RuntimeError if the compiled code did not run.
        """
        answer = self._ask((mode, root), limit_s)
        return ModeCost(mode, stopped=answer) if isinstance(answer, str) else answer

    def together(self, modes: list[str], root: str) -> tuple[dict[str, Any], str]:
        """The calls of all these modes, side by side: what of each mode's cost they replace, and why if they do not."""
        answer = self._ask((modes, root), TURNS_S)
        return ({}, answer) if isinstance(answer, str) else (answer, "")

    def _ask(self, question: tuple[Any, str], limit_s: float) -> Any:
        """The answer, or a string that says why there is none: too late, or an end of the process."""
        try:
            if self._child is None:
                self._child = Child(_serve, self.name, self.device)
                self._child.heard(START_S)
            self._child.send(question)
            kind, answer = self._child.heard(limit_s)
        except TimeoutError:
            self.stop()
            return f"stopped after {limit_s:.0f} s, its time limit"
        except EOFError as ended:
            self.stop()
            return str(ended)
        if kind == "refused":
            raise RuntimeError(f"{self.name}, {question[0]}: {answer}")
        return answer

    def stop(self) -> None:
        """End the process, and those it has started to compile kernels."""
        if self._child:
            self._child.stop()
        self._child = None


def _serve(pipe: Connection, name: str, device: str) -> None:
    """The child: build the workload, then answer what is asked: a mode's cost, or the times of several together."""
    workload = WORKLOADS[name]
    fn, args, step = workload.build(device)
    _wake(fn, step, device)
    with contextlib.suppress(EOFError, OSError):  # nobody is listening any more
        pipe.send(name)
        while True:
            asked, root = pipe.recv()
            answer = _answer if isinstance(asked, str) else _together
            pipe.send(answer(workload, fn, args, step, device, asked, Path(root)))


def _wake(fn: Callable, step: Step, device: str) -> None:
    """Compile it once for nothing: modules and workers are what a process pays once, and no mode owes them.

    What is measured then has empty caches of its own.
    """
    if device == "cuda":
        compile_workers_ready()
    step(torch.compile(fn))
    torch.compiler.reset()
    if device == "cuda":
        torch.cuda.empty_cache()  # or the first mode's memory would be more


def _searched(workload: Workload, mode: str) -> Mapping[str, Any] | None:
    return workload.search if mode.startswith("max-autotune") else None


def _folder(root: Path, mode: str, number: int) -> Path:
    return root / mode / str(number)


def _answer(
    workload: Workload, fn: Callable, args: tuple, step: Step, device: str, mode: str, root: Path
) -> tuple[str, Any]:
    folders = [_folder(root, mode, number) for number in range(workload.times(mode))]
    try:
        (cost,) = measure_each(fn, *args, modes=[mode], step=step, options=_searched(workload, mode), folders=folders)
    except NotCompiledError as error:
        return "refused", str(error)
    except Exception as error:
        return "measured", ModeCost(mode, stopped=reason(error))
    return "measured", cost


def _together(
    workload: Workload, fn: Callable, args: tuple, step: Step, device: str, modes: list[str], root: Path
) -> tuple[str, Any]:
    """Compile each mode from what its last folder holds, time them all in turn, and ask what each costs the host."""
    calls: dict[str, Callable[[], Any]] = {}
    try:
        torch.compiler.reset()
        for mode in modes:
            compiled = torch_compile(fn, mode, _searched(workload, mode))
            calls[mode] = functools.partial(step, compiled)
            with cache_folder(_folder(root, mode, workload.times(mode) - 1)):
                for _ in range(WARM_UP_CALLS):
                    calls[mode]()
        taken = in_turn_us(calls, device)
        found = {}
        for mode, samples_us in taken.items():
            call = Quartiles.of_us(samples_us)
            found[mode] = {"call": call, "host": host_cost(calls[mode], device)}
    except Exception as error:
        return "measured", reason(error)
    finally:
        torch.compiler.reset()
    return "measured", found
