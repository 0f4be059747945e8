"""Eager and compiled, each against float64: operators, chains, training runs. Which one is closer to the truth?

Parts come in the order of what the chapter needs most, and none is begun after its share of the time is spent. One that
fails is kept as the reason; the rest stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from compile_lab.recordings import Provenance, Recording

from ...registry import Progress
from ...shared import subjects
from ..chains import CPU_WAYS, EMULATED, WAYS, ChainError, MaskRow, RowAlone, chains_judged, dropout_masks, rows_alone
from ..operators_judged import OPERATORS, OperatorError, judged
from ..runs import AT_STEPS, CPU_RUN_WAYS, GPU_RUN_WAYS, TrainedRun, trajectories

RUN_LAYERS, RUN_DIM, RUN_HEADS, RUN_CONTEXT, RUN_BATCH = 2, 64, 4, 64, 8
RUN_STEPS, SEEDS = 300, (0, 1, 2)
LAST_START_S = {"cuda": 200.0, "cpu": 110.0}
"""No part is begun later than this."""
RUNS_S = {"cuda": 60.0, "cpu": 60.0}
"""No further seed is trained after so many seconds of training, no further way after half as many again."""
FP32_WAYS = tuple(way for way in WAYS if way != EMULATED)
"""On a GPU: casts are emulated where there are some, in bf16; the other options are about fp32."""
PARTS = ("operators", "chains", "masks", "alone", "runs")


@dataclass(frozen=True)
class Numerics:
    """What a recording holds, as rows; ``stopped`` says of each part that is not there why."""

    operators: tuple[OperatorError, ...]
    chains: tuple[ChainError, ...]
    masks: tuple[MaskRow, ...]
    alone: tuple[RowAlone, ...]
    runs: tuple[TrainedRun, ...]
    stopped: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance | None = None


_KINDS: dict[str, Any] = {
    "operators": OperatorError,
    "chains": ChainError,
    "masks": MaskRow,
    "alone": RowAlone,
    "runs": TrainedRun,
}


def recorded(recording: Recording) -> Numerics:
    """A recording of this experiment, as rows."""
    rows = {name: tuple(map(kind.from_json, recording.result[name])) for name, kind in _KINDS.items()}
    return Numerics(**rows, stopped=recording.result["stopped"], provenance=recording.provenance)


def record(
    device: str,
    progress: Progress = iter,
    *,
    parts: tuple[str, ...] = PARTS,
    names: tuple[str, ...] = OPERATORS,
    steps: int = RUN_STEPS,
    seeds: tuple[int, ...] = SEEDS,
) -> dict[str, Any]:
    """Operators and chains in fp32, tf32 (on a GPU) and bf16, dropout's mask, rows alone, and training runs.

    ``parts`` are those of `PARTS` that are wanted. About four minutes on an H200. Returns
    ``{"operators", "chains", "masks", "alone", "runs"}``, lists of the rows that `recorded` gives back, ``"stopped"``:
    a reason for each part that is not there, and ``"seconds"`` of each part.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _record(device, progress, parts, names, steps, seeds)
    finally:
        torch.set_num_threads(threads)


def _record(
    device: str,
    progress: Progress,
    chosen: tuple[str, ...],
    names: tuple[str, ...],
    steps: int,
    seeds: tuple[int, ...],
) -> dict[str, Any]:
    precisions = ("bf16", "fp32", "tf32") if device == "cuda" else ("bf16", "fp32")
    fp32_ways = FP32_WAYS if device == "cuda" else CPU_WAYS
    all_parts: list[tuple[str, str, Callable[[], list[Any]]]] = [
        *(("operators", each, lambda each=each: judged(names, each, device)) for each in precisions),
        ("chains", "bf16", lambda: chains_judged("bf16", device, CPU_WAYS)),
        ("masks", "", lambda: dropout_masks(device)),
        ("runs", "", lambda: training_runs(device, steps=steps, seeds=seeds, budget_s=RUNS_S[device])),
        *(("alone", each, lambda each=each: rows_alone(device, each)) for each in precisions[:2]),
        ("chains", "fp32", lambda: chains_judged("fp32", device, fp32_ways)),
    ]
    parts = [part for part in all_parts if part[0] in chosen]
    found: dict[str, list[Any]] = {name: [] for name in _KINDS}
    stopped: dict[str, str] = {}
    seconds: dict[str, float] = {}
    began = time.monotonic()
    for name, precision, measured in progress(parts):
        part, since = f"{name} {precision}".strip(), time.monotonic()
        if since - began > LAST_START_S[device]:
            stopped[part] = f"not begun: {since - began:.0f} s were spent"
            continue
        try:
            rows = measured()
        except Exception as reason:  # the rest of the recording stands
            stopped[part] = f"{type(reason).__name__}: {str(reason).strip()[:400]}"
            continue
        found[name] += [row.to_json() if hasattr(row, "to_json") else asdict(row) for row in rows]
        seconds[part] = round(time.monotonic() - since, 1)
    return {**found, "stopped": stopped, "seconds": seconds}


def training_runs(
    device: str = "cpu",
    ways: tuple[str, ...] | None = None,
    steps: int = RUN_STEPS,
    seeds: tuple[int, ...] = SEEDS,
    budget_s: float = float("inf"),
) -> list[TrainedRun]:
    """MiniGPT of two layers learns the grammar, each way, with each seed: its own weights and its own sentences."""
    chosen = ways or (GPU_RUN_WAYS if device == "cuda" else CPU_RUN_WAYS)

    def make(seed: int) -> torch.nn.Module:
        model = subjects.deep_gpt(RUN_LAYERS, RUN_DIM, RUN_HEADS, RUN_CONTEXT)
        drawn = torch.Generator().manual_seed(seed)
        with torch.no_grad():  # torch's own beginning, but another of each seed: signs of the weights are drawn anew
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(torch.randint(0, 2, parameter.shape, generator=drawn) * 2 - 1)
        return model.to(device)

    def batches(seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        model = subjects.deep_gpt(RUN_LAYERS, RUN_DIM, RUN_HEADS, RUN_CONTEXT)
        found = [subjects.sentences(model, RUN_BATCH, 1000 * seed + step) for step in range(steps)]
        return [(tokens.to(device), targets.to(device)) for tokens, targets in found]

    at_steps = (*(step for step in AT_STEPS if step < steps), steps)
    return trajectories(make, batches, chosen, seeds, at_steps, budget_s=budget_s)
