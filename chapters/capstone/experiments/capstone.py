"""The recording ``capstone``: the ladder of GPT-2 124M on one GPU, and a peer's model in the same run.

All rungs are alive at once and timed in turns, so that what the machine does to one it does to all. What fails, or
would begin after the time given, is told as ``stopped``; the rest of the recording stands.
"""

from __future__ import annotations

import functools
import gc
import io
import itertools
import random
import re
import subprocess
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import shown
from compile_lab.measure.allocator import peak
from compile_lab.measure.judge import relative_error_together
from compile_lab.measure.timing import summary_ms, wait
from compile_lab.measure.trace import profiled
from compile_lab.recordings import RecordingError

from ...experiment import Attempts
from ...registry import Progress
from ...shared import subjects
from ...shared.experiments import machine

BATCH, LENGTH = {"cuda": 32, "cpu": 4}, {"cuda": 1024, "cpu": 16}
JUDGED = {"cuda": 4, "cpu": 4}
"""Sequences of the batch whose gradients are compared with float32's."""
ROUNDS, VISIT_S, LEAST = 5, 0.6, 3
"""Turns, seconds of a visit at the least, and steps of it at the least."""
PROFILED = 3
CURVE_STEPS, CURVE_LR, WARM_UP = {"cuda": 300, "cpu": 3}, 3e-4, 30
SEEDS = (0, 1, 2)
JUDGE = "fused"
"""The rung whose three seeds say how far losses lie apart: eager, bf16 by autocast, nothing changed but switches."""
NAME_LENGTH = 90
BUDGET_S = 900.0
NO_FRONT_END = "steps by hand copy attention's gradients without nvidia-cudnn-frontend: pip install -e '.[cudnn]'"

Batch = tuple[Tensor, Tensor]


def record(
    device: str, progress: Progress = iter, *, peer: Path | None = None, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """Times, memory, kernels, gradients and losses of each rung, as plain JSON values; a quarter of an hour on an H200.

    peer: a file that defines another GPT as nanoGPT's ``model.py`` does (``GPT(GPTConfig())``, whose call gives logits
    and loss, and ``configure_optimizers``); it is measured eagerly and compiled. RecordingError if it is none.

    ``{"batch", "length", "layers", "dim", "parameters", "ceilings": [...], "verified": {kernel: [found, limit]},
    "attention": by whom the hand reaches cuDNN's,
    "rungs": [{"name", "does", "by", "vocabulary", "first_s", "peak_nbytes", "median_ms", "low_ms", "high_ms",
    "samples", "clock_mhz", "power_w", "gradient_error", "kernels": [{"name", "count", "us"}]}],
    "curves": [{"name", "seed", "losses"}], "stopped": [{"name", "part", "stopped"}]}``. ``peak_nbytes`` is what a step
    takes above what lies there between steps, plus that. ``gradient_error``: |found − exact| / |exact| of all gradients
    together, against the same model in float32. ``kernels`` are those of one step; ``clock_mhz`` and ``power_w`` what
    the driver said at the end of each visit. Losses are of the grammar's sentences.
    """
    study = LadderStudy(device, budget_s, peer_module(peer) if peer else None)
    parts = (study.build, study.judge, study.time, study.profile, study.train)
    for part in progress(parts):
        part()
    reset_dynamo()
    return study.recording()


class LadderStudy:
    """One run of the ladder. All steps by hand share their graphs' memory: each with its own, no card holds them."""

    def __init__(self, device: str, budget_s: float, peer: ModuleType | None) -> None:
        self.device, self.attempts, self.peer = device, Attempts(budget_s), peer
        self.rows: dict[str, dict[str, Any]] = {}
        self.steps: dict[str, Any] = {}
        self.curves: list[dict[str, Any]] = []
        self.verified: dict[str, Any] = {}
        self.batch = _batch(BATCH[device], LENGTH[device], device)
        if device == "cuda" and "front end" not in subjects.capstone_attention():
            warnings.warn(NO_FRONT_END, stacklevel=3)
        self.memory = subjects.capstone_graph_memory(device)

    def build(self) -> None:
        """Each rung made, and its first steps, which compile and capture."""
        self.verified = self._tried("hand", "verify", lambda: subjects.capstone_verified(self.device)) or {}
        for name, rung in subjects.capstone_rungs().items():
            if self.device == "cpu" and name == "graph":
                continue
            about = {"does": rung.does, "by": rung.by, "vocabulary": rung.vocabulary}
            self._built(name, about, functools.partial(self._step_of, rung))
        for compiled in (False, True) if self.peer else ():
            name = "peer, compiled" if compiled else "peer"
            about = {"does": "another GPT-2, as it comes", "by": "eager", "vocabulary": 50_304}
            self._built(name, about, functools.partial(self._peer_step, {} if compiled else None))

    def judge(self) -> None:
        """Gradients of each rung, uncompiled operations where it is compiled, beside float32's."""
        self._judged(subjects.capstone_rungs())
        for name in [each for each in self.steps if each.startswith("peer")]:
            self._peer_judged(name)

    def time(self) -> None:
        """Steps in turns; the clock and the power by the driver at the end of each visit."""
        taken: dict[str, list[float]] = {name: [] for name in self.steps}
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in self.steps}
        left = list(self.steps)
        for turn in range(ROUNDS):
            for name in random.Random(turn).sample(left, len(left)):
                if turn == 0 or not self.attempts.late:
                    visit = self._tried(name, "time", functools.partial(self._visit, self.steps[name].step))
                    if visit is None:
                        left.remove(name)  # it has failed, and would again
                        continue
                    taken[name] += visit[0]
                    seen[name] += visit[1]
        for name, times in taken.items():
            if len(times) > 1:
                self.rows[name] |= summary_ms(times, 4) | {"samples": len(times)}
                clocks, watts = zip(*seen[name], strict=True) if seen[name] else ((), ())
                self.rows[name] |= {"clock_mhz": list(clocks), "power_w": list(watts)}

    def profile(self) -> None:
        """The kernels of a step and their time on the GPU."""
        for name, step in self.steps.items() if self.device == "cuda" else ():
            self.rows[name]["kernels"] = self._tried(name, "kernels", functools.partial(self._kernels, step))

    def train(self) -> None:
        """Losses of each rung over the same batches; of one rung, with three seeds of weights and order."""
        runs = [(JUDGE, seed) for seed in SEEDS]
        runs += [(name, 0) for name in reversed(self.steps) if name not in (JUDGE, "peer", "first", "tf32", "bf16")]
        self._curves(runs)

    def recording(self) -> dict[str, Any]:
        config = self._fresh_model(subjects.capstone_rungs()[JUDGE]).config
        sizes = {"batch": BATCH[self.device], "length": LENGTH[self.device], "layers": config.layers, "dim": config.dim}
        parts: dict[str, Any] = {"copy_nbytes": (1 << 30,), "matrix_sizes": (8192,)} if self.device == "cuda" else {}
        return {
            **sizes,
            "heads": config.heads,
            "ceilings": machine.record(self.device, **parts),
            "verified": self.verified,
            "attention": subjects.capstone_attention(),
            "rungs": [{"name": name, **row} for name, row in self.rows.items()],
            "curves": self.curves,
            "curve_lr": CURVE_LR,
            "warm_up": WARM_UP,
            "stopped": self.attempts.stopped,
        }

    def _built(self, name: str, about: dict[str, Any], make: Callable[[], Any]) -> None:
        self.rows[name] = about

        def build() -> None:
            gc.collect()
            if self.device == "cuda":
                torch.cuda.empty_cache()
            with peak(self.device) as memory:
                begin = time.perf_counter()
                step = make()
                float(step.step(*self.batch))
                wait(self.device)
                first_s = time.perf_counter() - begin
                step.step(*self.batch)
            self.rows[name] |= {"first_s": round(first_s, 3), "peak_nbytes": memory.rise_nbytes}
            self.steps[name] = step

        self._tried(name, "build", build)

    def _step_of(self, rung: Any) -> Any:
        shared = self.memory if rung.by == "hand" else {}
        return rung.made(self._fresh_model(rung), *self.batch[0].shape, **shared)

    def _peer_compiled(self) -> None:
        if self.peer:
            about = {"does": "another GPT-2, compiled as it comes", "by": "peer", "vocabulary": 50_304}
            self._built("peer, compiled", about, functools.partial(self._peer_step, {}))

    def _fresh_model(self, rung: Any) -> subjects.MiniGPT:
        return subjects.capstone_model(rung.vocabulary, self.device)

    def _peer_step(self, compiled: Mapping[str, Any] | None = None, **changed: Any) -> PeerStep:
        assert self.peer  # without one nobody asks for its step
        return PeerStep(self.peer, self.device, compiled, **changed)

    def _some(self) -> Batch:
        tokens, targets = (each[: JUDGED[self.device]].contiguous() for each in self.batch)
        return tokens, targets

    def _judged(self, rungs: Mapping[str, Any]) -> None:
        """At the first weights: a rung of the batch's own few sequences is made where its shape is fixed."""
        some, exact = self._some(), dict[int, tuple[Tensor, Mapping[str, Tensor]]]()
        for name, rung in ((name, rung) for name, rung in rungs.items() if name in self.steps):
            if rung.vocabulary not in exact:
                exact.clear()
                exact[rung.vocabulary] = subjects.capstone_exact(self._fresh_model(rung), *some)
            judge = functools.partial(self._errors, rung, some, *exact[rung.vocabulary])
            self.rows[name] |= self._tried(name, "gradients", judge) or {}

    def _errors(self, rung: Any, some: Batch, wanted_loss: Tensor, wanted: Mapping[str, Tensor]) -> dict[str, float]:
        loss, found = rung.made(self._fresh_model(rung), *some[0].shape).gradients(*some)
        apart = abs(float(loss) - float(wanted_loss))
        return {"gradient_error": relative_error_together(found, wanted), "loss_error": apart}

    def _peer_judged(self, name: str, **changed: Any) -> None:
        """The peer's gradients in bf16, its model changed so, beside its own in float32."""
        some = self._some()

        def judge() -> float:
            exact = self._peer_step().gradients(*some, autocast=False)
            found = self._peer_step(**changed).gradients(*some, autocast=True)
            return relative_error_together(found, exact)

        self.rows[name]["gradient_error"] = self._tried(name, "gradients", judge)

    def _visit(self, step: Callable[..., Tensor]) -> tuple[list[float], list[tuple[float, float]]]:
        """Milliseconds of steps that follow one another, and (MHz, W) while they ran."""
        if self.device != "cuda":
            return [_wall_ms(lambda: step(*self.batch)) for _ in range(LEAST)], []
        step(*self.batch)
        wait(self.device)
        begin = time.perf_counter()
        step(*self.batch)
        wait(self.device)
        steps = max(LEAST, round(VISIT_S / (time.perf_counter() - begin)))
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        marks[0].record()
        for at, mark in enumerate(marks[1:]):
            step(*self.batch)
            mark.record()
            if at == steps // 2:
                driver = _ask_driver()
        wait(self.device)
        return [a.elapsed_time(b) for a, b in itertools.pairwise(marks)], _readings(driver)

    def _kernels(self, step: Any) -> list[dict[str, Any]]:
        once = functools.partial(step.step, *self.batch)
        once()
        count, us = Counter[str](), defaultdict[str, float](float)
        for kernel in profiled(once, calls=PROFILED).kernels:
            name = re.sub(r"_\d+$", "", kernel.name)[:NAME_LENGTH]
            count[name] += 1
            us[name] += kernel.duration_us
        return [
            {"name": name, "count": round(count[name] / PROFILED, 2), "us": round(total / PROFILED, 2)}
            for name, total in sorted(us.items(), key=lambda each: -each[1])
        ]

    def _curves(self, runs: Iterable[tuple[str, int]]) -> None:
        """Of the grammar's sentences, the same for all."""
        n, model = LENGTH[self.device], self._fresh_model(subjects.capstone_rungs()[JUDGE])
        drawn = (subjects.sentences(model, BATCH[self.device], step) for step in range(CURVE_STEPS[self.device]))
        batches = [(tokens[:, :n].contiguous(), targets[:, :n].contiguous()) for tokens, targets in drawn]
        for name, seed in runs:
            if name in self.steps and not name.startswith("peer"):
                curve = functools.partial(self._curve, name, seed, batches)
                self.attempts.in_time(curve, name=name, part="losses")

    def _curve(self, name: str, seed: int, batches: list[Batch]) -> None:
        step = self.steps[name]
        vocabulary = self.rows[name]["vocabulary"]
        step.restart(dict(subjects.capstone_model(vocabulary, self.device, seed).named_parameters()))
        losses = []
        for at in range(len(batches)):
            step.set_lr(CURVE_LR * min(1.0, (at + 1) / WARM_UP))
            losses.append(step.step(*batches[(at + 100 * seed) % len(batches)]).clone())
        told = [round(float(each), 5) for each in losses]
        self.curves.append({"name": name, "seed": seed, "losses": told})

    def _tried(self, name: str, part: str, work: Callable[[], Any]) -> Any:
        return self.attempts.tried(work, name=name, part=part)


def peer_module(path: Path) -> ModuleType:
    """The file as a module. RecordingError, before anything is measured, if it is none with a GPT."""
    try:
        spec = spec_from_file_location("peer", path)
        if spec is None or spec.loader is None:
            raise ImportError("its name does not end in .py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        missing = [name for name in ("GPT", "GPTConfig") if not hasattr(module, name)]
        why = f"it defines no {' and no '.join(missing)}" if missing else ""
    except (Exception, SystemExit) as error:  # whatever the file does
        why = f"{type(error).__name__}: {shown(str(error))}"
    if why:
        raise RecordingError(f"{path.name} is no Python file with a GPT ({why}); give nanoGPT's model.py or its like")
    return module


class PeerStep:
    """Another GPT-2's own training step, as its authors write it: bf16 autocast, its own optimizer.

    compiled: Inductor's options, None for an eager step. change: what is done to the model before it is compiled.
    """

    def __init__(
        self,
        module: ModuleType,
        device: str,
        compiled: Mapping[str, Any] | None = None,
        change: Callable[[nn.Module], Any] = lambda model: model,
    ) -> None:
        torch.manual_seed(0)
        self.device = device
        with redirect_stdout(io.StringIO()):  # it says how many parameters it has
            self.model = change(module.GPT(module.GPTConfig(dropout=0.0, bias=True)).to(device))
            self.optimizer = self.model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), device)
        self.run = self.model if compiled is None else torch.compile(self.model, options=dict(compiled))

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        torch.set_float32_matmul_precision("high")
        with torch.autocast(self.device, torch.bfloat16):
            _, loss = self.run(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def gradients(self, tokens: Tensor, targets: Tensor, autocast: bool) -> Mapping[str, Tensor]:
        """Of the uncompiled model at its present weights."""
        torch.set_float32_matmul_precision("high" if autocast else "highest")
        with torch.autocast(self.device, torch.bfloat16, enabled=autocast):
            _, loss = self.model(tokens, targets)
        loss.backward()
        found = {name: each.grad.float() for name, each in self.model.named_parameters()}
        self.optimizer.zero_grad(set_to_none=True)
        return found


def _batch(batch: int, length: int, device: str) -> Batch:
    """Tokens as often as words are in a text (Zipf's law over GPT-2's vocabulary), seeded: int64 [batch, length]."""
    words = 50_257 if device == "cuda" else 600
    drawn = torch.rand(batch, length + 1, generator=torch.Generator().manual_seed(0))
    tokens = ((words + 1.0) ** drawn).long().sub(1).clamp(0, words - 1).to(device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def _ask_driver() -> subprocess.Popen | None:
    """The driver's tool, asked for the clock and the power while the GPU works; None where there is no such tool."""
    asked = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
    try:
        return subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None


def _readings(driver: subprocess.Popen | None) -> list[tuple[float, float]]:
    """(MHz of the multiprocessors, W), if it said so."""
    said = driver.communicate()[0].splitlines() if driver else []
    found = [float(each) for each in said[0].split(",")] if said and "N/A" not in said[0] else []
    return [(found[0], found[1])] if len(found) == 2 else []


def _wall_ms(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    float(call())
    return (time.perf_counter() - begin) * 1e3
