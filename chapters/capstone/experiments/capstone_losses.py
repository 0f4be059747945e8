"""The recording ``capstone_losses``: is training in fp8 the same training? Long runs on text, three seeds of each.

The text is the source of Python's own library, by bytes: it is real, and wherever Python is. Seeds differ in the first
weights and in the windows.
"""

import functools
import statistics
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from compile_lab.measure.timing import wait

from ...experiment import Attempts
from ...registry import Progress
from ...shared import subjects

RUNGS = ("hand", "fp8", "fp8 + qkv", "all fp8")
SEEDS = (0, 1, 2)
STEPS, BATCH, LENGTH = {"cuda": 2000, "cpu": 20}, {"cuda": 8, "cpu": 4}, {"cuda": 1024, "cpu": 16}
LR, WARM_UP, COOL_DOWN = 3e-4, 100, 0.2
"""The peak; steps up to it; the share of steps in which it goes down to a tenth."""
EVERY = 10
"""Steps whose losses are kept as their mean."""
BUDGET_S = 500.0
NOT_SOURCE = {"site-packages", "dist-packages", "test", "tests", "__pycache__", "idlelib"}


def record(
    device: str,
    progress: Progress = iter,
    *,
    rungs: Sequence[str] = RUNGS,
    seeds: Sequence[int] = SEEDS,
    budget_s: float = BUDGET_S,
) -> dict[str, Any]:
    """Losses of each rung and seed, as plain JSON values; seven minutes on an H200.

    ``{"text", "batch", "length", "steps", "every", "lr", "warm_up", "runs": [{"rung", "seed", "losses": means of
    ``every`` steps, "validation_loss", "seconds"}], "stopped": [{"rung", "seed", "stopped"}]}``. The validation loss is
    of the weights at the end, by the model in float32, on the held-out end of the text. Nats per byte.
    """
    attempts = Attempts(budget_s)
    corpus = subjects.capstone_text(_sources(), LENGTH[device])
    steps: dict[str, Any] = {}
    runs = [
        attempts.in_time(functools.partial(_run, device, rung, seed, corpus, steps), rung=rung, seed=seed)
        for seed, rung in progress([(seed, rung) for seed in seeds for rung in rungs])
    ]
    sizes = {"batch": BATCH[device], "length": LENGTH[device], "steps": STEPS[device], "every": EVERY}
    found = {"runs": [run for run in runs if run], "stopped": attempts.stopped}
    return {"text": corpus.name, **sizes, "lr": LR, "warm_up": WARM_UP, **found}


def rate(step: int, steps: int) -> float:
    """The learning rate of a step, from 0: up, level, and down to a tenth of the peak."""
    up, down = (step + 1) / WARM_UP, (steps - step) / (COOL_DOWN * steps)
    return LR * min(1.0, up, 0.1 + 0.9 * down)


def _run(device: str, rung: str, seed: int, corpus: Any, steps: dict[str, Any]) -> dict[str, Any]:
    model = subjects.capstone_model(50_304, device, seed)
    if rung not in steps:
        steps[rung] = subjects.capstone_rungs()[rung].made(model, BATCH[device], LENGTH[device])
    step = steps[rung]
    step.restart(dict(model.named_parameters()))
    begin, losses = time.perf_counter(), []
    for at in range(STEPS[device]):
        tokens, targets = (each.to(device) for each in corpus.training(BATCH[device], LENGTH[device], seed, at))
        step.set_lr(rate(at, STEPS[device]))
        losses.append(step.step(tokens, targets).clone())
    wait(device)
    seconds = time.perf_counter() - begin
    told = [float(each) for each in losses]
    means = [round(statistics.fmean(told[at : at + EVERY]), 5) for at in range(0, len(told), EVERY)]
    model.load_state_dict(step.weights(), strict=False)
    validated = _validated(device, model, corpus)
    return {"rung": rung, "seed": seed, "losses": means, "validation_loss": validated, "seconds": round(seconds, 2)}


@torch.no_grad()
def _validated(device: str, model: torch.nn.Module, corpus: Any) -> float:
    tokens, targets = (each.to(device) for each in corpus.validation(LENGTH[device], 0))
    parts = zip(tokens.split(BATCH[device]), targets.split(BATCH[device]), strict=True)
    sums = [float(model(some, wanted)) * len(some) for some, wanted in parts]
    return round(sum(sums) / len(tokens), 5)


def _sources() -> list[Path]:
    """The Python files of the standard library, sorted, without its tests and what was installed beside it."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = (file for file in folder.rglob("*.py") if not NOT_SOURCE & set(file.relative_to(folder).parts))
    return sorted(files)
