"""Whole, by the block, by region: GPTs of 2 to 24 layers, and GPT-2 of 124 M to 1.5 B, training and inference.

Each model has a process of its own, which starts with nothing compiled. GPT-2 124M's training compiles alone, several
times in each way. The others compile several at a time, once, each with its share of the cores; steps are timed when
all have compiled, one model after the other, so that nobody else is on the device. The vocabulary is padded.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any
from unittest import mock

import torch

from compile_lab.measure.child import Child
from compile_lab.modes.regional import WaysRace

from ...experiment import reason
from ...registry import Progress
from ...shared import subjects

AT_A_TIME = {"cuda": 3, "cpu": 1}
COMPILE_S = {"cuda": 230, "cpu": 300}
"""What has not compiled by then is recorded as stopped, and steps are timed of the rest."""
BUDGET_S = {"cuda": 290, "cpu": 420}
RUN_S = {"cuda": 2.4, "cpu": 4.0}
GUESS_S = {"eager": 0.2, "blocks": 4, "region": 8, "whole": 6}
A_LAYER_S = {"region": 0.35, "whole": 1.1}
"""About what a way takes to compile, for whether it is still begun: some seconds, and so many more a layer."""
ALL = ("eager", "blocks", "region", "whole")


@dataclass(frozen=True)
class RegionalSubject:
    """A GPT, its input, and the ways that it is compiled."""

    layers: int
    dim: int
    heads: int
    batch: int
    training: bool = True
    ways: tuple[str, ...] = ALL
    series: bool = False
    compiled: int = 1
    """How many times each way is compiled from nothing; more than once: alone on the machine."""

    @property
    def what(self) -> str:
        """In words."""
        does = "training, bf16 autocast, fused AdamW" if self.training else "inference, bf16"
        return f"{self.layers} layers of width {self.dim}, {does}, batch {self.batch} of 1024 tokens"


GPUS: dict[str, RegionalSubject] = {
    "GPT-2 124M, training": RegionalSubject(12, 768, 12, 8, series=True, compiled=3),
    "GPT-2 1.5B, training": RegionalSubject(48, 1600, 25, 2, ways=("eager", "blocks", "whole")),
    "2 layers": RegionalSubject(2, 768, 12, 8, series=True),
    "8 layers": RegionalSubject(8, 768, 12, 8, series=True),
    "GPT-2 124M, inference": RegionalSubject(12, 768, 12, 8, training=False),
    "24 layers": RegionalSubject(24, 768, 12, 8, series=True),
    "GPT-2 350M, training": RegionalSubject(24, 1024, 16, 8),
}
"""What compiles alone, then the largest with the smallest, so that all fit a GPU of 80 GB."""
TRIED = ("2 layers", "8 layers", "GPT-2 124M, inference")
"""What a try-out on a CPU takes of them: at width 64 with 64 tokens, the depth cut to 4."""


def record(device: str, progress: Progress = iter, *, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Compile time, steps, graphs, kernels and memory of each model in each way, as plain JSON values: five minutes.

    Returns ``{"subjects": [{"name", "what", "layers", "dim", "training", "series", "ways": [WayCost as a dict]}],
    "at_a_time", "cores", "vocabulary"}``. A way that fails, or comes too late, has ``stopped`` and says why.
    """
    names = names or (tuple(GPUS) if device == "cuda" else TRIED)
    begin, most = time.monotonic(), AT_A_TIME[device]
    waiting = sorted(names, key=lambda name: GPUS[name].compiled == 1)
    running: dict[Any, _RegionalChild] = {}  # by the pipe that `wait` looks at
    ready: dict[str, _RegionalChild] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (1 if any(child.alone for child in running.values()) else most):
                child = _RegionalChild(waiting.pop(0), device, begin + COMPILE_S[device], most)
                running[child.pipe] = child
            left = begin + COMPILE_S[device] + 6 - time.monotonic()
            heard = wait(list(running), timeout=max(0.0, left))
            for pipe in heard or list(running):
                child = running.pop(pipe)
                child.heard(late=not heard)
                ready[child.name] = child
        found = {}
        for name in progress([name for name in names if name in ready]):
            found[name] = ready[name].timed(begin + BUDGET_S[device] - time.monotonic())
    finally:
        for child in [*running.values(), *ready.values()]:
            child.stop()
    rows = [{"name": name, **_header(name, device), "ways": found[name]} for name in sorted(found, key=_order)]
    return {"subjects": rows, "at_a_time": most, "cores": os.cpu_count(), "vocabulary": subjects.GPT2_PADDED}


def _order(name: str) -> tuple[Any, ...]:
    one = GPUS[name]
    return not one.series, one.dim, not one.training, one.layers


def _shape(name: str, device: str) -> RegionalSubject:
    one = GPUS[name]
    if device == "cuda":
        return one
    return replace(one, layers=min(one.layers, 4), dim=64, heads=1, batch=4)


def _header(name: str, device: str) -> dict[str, Any]:
    one = _shape(name, device)
    what = one.what if device == "cuda" else f"a try-out on a CPU: {one.layers} layers of width 64, 4 × 64 tokens"
    return {"what": what, "layers": one.layers, "dim": one.dim, "training": one.training, "series": one.series}


class _RegionalChild:
    """A process that builds one model and compiles it in each way; then it waits to be told to time its steps."""

    def __init__(self, name: str, device: str, ends: float, at_a_time: int) -> None:
        self.name, self._ways, self._stopped = name, GPUS[name].ways, ""
        self.alone = GPUS[name].compiled > 1
        share = 1 if self.alone else at_a_time
        threads = str(min(32, max(1, (os.cpu_count() or 1) // share))) if device == "cuda" else "1"
        with mock.patch.dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS=threads):
            self._child = Child(_serve, name, device, ends)
        self.pipe, self.stop = self._child.pipe, self._child.stop

    def heard(self, late: bool) -> None:
        """It has something to say, or is too late."""
        if late:
            self._stopped = "stopped: it was still compiling when the time for that was over"
            self.stop()
        else:
            self._received()

    def timed(self, left_s: float) -> list[dict[str, Any]]:
        """Its ways' costs; each stopped, with the reason, if it came to no end."""
        if not self._stopped and left_s < 2:
            self._stopped = "not timed: the recording's time was used up"
        if not self._stopped:
            self._child.send("time")
            if (answer := self._received(max(2.0, left_s + 10))) is not None:
                return answer
        self.stop()
        return [{"way": way, "stopped": self._stopped} for way in self._ways]

    def _received(self, within_s: float | None = None) -> Any:
        try:
            kind, answer = self._child.heard(within_s)
        except TimeoutError:
            kind, answer = "failed", "stopped: its steps took too long"
        except EOFError as ended:
            kind, answer = "failed", str(ended)
        if kind == "failed":
            self._stopped = answer
            return None
        return answer


def _serve(pipe: Connection, name: str, device: str, ends: float) -> None:
    """The child: compile, tell, wait to be asked, time, tell."""
    if device == "cpu":
        torch.set_num_threads(1)  # none that waits for work is counted as at work
    try:
        race = _compiled_race(_shape(name, device), device, ends)
        pipe.send(("ready", None))
        pipe.recv()
        race.run(samples=25, most_s=RUN_S[device])
        race.count()
        pipe.send(("done", [asdict(cost) for cost in race.costs().values()]))
    except Exception as error:  # told as what became of this model; the others are wanted all the same
        with contextlib.suppress(OSError):
            pipe.send(("failed", reason(error)))


def _compiled_race(one: RegionalSubject, device: str, ends: float) -> WaysRace:
    model, step = _built(one, device)
    race = WaysRace(model, step)
    draw = random.Random(0)
    step(model)  # the optimizer's state, the libraries' handles
    for _ in range(one.compiled - 1):
        for way in draw.sample(one.ways[1:], len(one.ways) - 1):
            with contextlib.suppress(Exception):  # it is told when the way enters
                race.rehearse(way)
    for way in one.ways:
        guess_s = (GUESS_S[way] + A_LAYER_S.get(way, 0) * one.layers) / 2
        if time.monotonic() + guess_s > ends:
            race.leave_out(way, "not begun: the time for compiling was used up")
            continue
        try:
            race.enter(way)
        except Exception as error:
            race.leave_out(way, reason(error))
        if device == "cuda":
            torch.cuda.empty_cache()
    return race


def _built(one: RegionalSubject, device: str) -> tuple[torch.nn.Module, Callable]:
    shape = (subjects.gpt2("meta") if device == "cuda" else subjects.minigpt("mini", "meta")).config
    model = subjects.of_shape(replace(shape, layers=one.layers, dim=one.dim, heads=one.heads), device)
    if not one.training:
        model = model.eval().bfloat16() if device == "cuda" else model.eval()
        return model, subjects.inference_step(subjects.tokens(model, one.batch)[0])
    return model, subjects.training_step(model, *subjects.tokens(model, one.batch), autocast=device == "cuda")
