"""The recording ``overlap``: a step under DDP and FSDP2 on 2, 4 and 8 ranks, and how much communication is hidden."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compile_lab import overlap_runs, ranks, subjects
from compile_lab.overlap import Collective, Overlap, Span, merged, overlap_of

RANKS = (2, 4, 8)
MODEL = {"cuda": "gpt2-124m", "cpu": "mini"}
BATCH = {"cuda": 8, "cpu": 4}
"""Sequences on each rank, as long as the model's context."""

DDP_BUCKETS: dict[str, float | None] = {"DDP, one bucket": 10_000, "DDP, 25 MB": None, "DDP, 1 MB": 1}
NOTHING_SENT = "nothing sent"
SMALLEST_GAP_MS = 0.02
"""Between spans of compute: smaller ones are closed where a timeline is kept."""


def _no_prefetch(blocks: list[Any]) -> None:
    for block in blocks:  # to prefetch itself, which is there already, takes the place of the default: the next one
        block.set_modules_to_backward_prefetch([block])


def _prefetch_two(blocks: list[Any]) -> None:
    for several, choose in ((blocks, "forward"), (blocks[::-1], "backward")):
        for at, block in enumerate(several):
            getattr(block, f"set_modules_to_{choose}_prefetch")(several[at + 1 : at + 3] or [block])


FSDP_CASES: dict[str, tuple[bool, Callable[[list[Any]], None]]] = {
    "FSDP2": (True, lambda blocks: None),
    "FSDP2, no prefetch": (True, _no_prefetch),
    "FSDP2, two blocks prefetched": (True, _prefetch_two),
    "FSDP2, not resharded after forward": (False, lambda blocks: None),
}
"""For each: are parameters sharded again after the forward, and what is told to the blocks."""


def record_overlap(device: str, progress: Callable[[list], Iterable] = iter) -> dict[str, Any]:
    """Steps of GPT-2 124M under DDP and FSDP2, as plain JSON values. About 40 s for each number of ranks.

    Returns ``{"model", "batch", "precision", "runs": [{"ranks", "case", "by_rank": [{"step_ms", "low_ms", "high_ms",
    "compute_ms", "communication_ms", "exposed_ms", "fraction"}], "timeline"}]}``; the timeline is rank 0's, for
    `timeline`. On GPUs each number of ranks that this machine has; on a CPU, to try it, two with a small model.
    Raises RuntimeError on a machine with one GPU: there is nobody to send to.
    """
    most = torch.cuda.device_count() if device == "cuda" else 2
    if most < 2:
        raise RuntimeError(f"overlap needs at least 2 GPUs, and {most} is here: record it on a machine that has them")
    runs = []
    for n in progress([n for n in RANKS if n <= most]):
        found = ranks.run(_on_rank, n, device, timeout=300, backend="nccl" if device == "cuda" else "gloo")
        runs += [_told(n, case, [each[case] for each in found]) for case in found[0]]
    precision = "bf16 autocast, parameters and gradients in float32" if device == "cuda" else "float32"
    return {"model": MODEL[device], "batch": BATCH[device], "precision": precision, "runs": runs}


def _on_rank(device: str) -> dict[str, overlap_runs.StepRun]:
    steps = {name: _ddp_step(device, mb) for name, mb in DDP_BUCKETS.items()}
    steps |= {name: _fsdp_step(device, *case) for name, case in FSDP_CASES.items()}
    steps[NOTHING_SENT] = _ddp_step(device, None, send=False)
    return overlap_runs.measured(steps, device=device)


def _ddp_step(device: str, bucket_mb: float | None, send: bool = True) -> Callable[[], None]:
    model = subjects.minigpt(MODEL[device], device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    step = _step(ddp, model, device)

    def quiet() -> None:
        with ddp.no_sync():
            step()

    return step if send else quiet


def _fsdp_step(device: str, reshard: bool, told: Callable[[list[Any]], None]) -> Callable[[], None]:
    model = subjects.minigpt(MODEL[device], device)
    inputs = subjects.tokens(model, BATCH[device])
    blocks = [fully_shard(block, reshard_after_forward=reshard) for block in model.blocks]
    fully_shard(model, reshard_after_forward=reshard)
    told(blocks)
    return _step(model, model, device, inputs)


def _step(run: nn.Module, model: nn.Module, device: str, inputs: tuple | None = None) -> Callable[[], None]:
    inputs = inputs or subjects.tokens(model, BATCH[device])
    optimizer = torch.optim.AdamW(run.parameters(), fused=True)

    def forward(*given: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            return run(*given)

    return overlap_runs.training_step(forward, optimizer, *inputs)


def _told(n: int, case: str, by_rank: list[overlap_runs.StepRun]) -> dict[str, Any]:
    rows = []
    for run in by_rank:
        row = {key: round(getattr(run, key), 4) for key in ("step_ms", "low_ms", "high_ms")}
        if run.overlap:
            for key in ("compute_ms", "communication_ms", "exposed_ms", "fraction"):
                row[key] = round(getattr(run.overlap, key), 4)
        rows.append(row)
    kept = by_rank[0].overlap and as_json(by_rank[0].overlap)
    return {"ranks": n, "case": case, "by_rank": rows, "timeline": kept}


def as_json(found: Overlap) -> dict[str, Any]:
    """An Overlap as JSON values, to a microsecond; gaps in compute below `SMALLEST_GAP_MS` are closed."""
    wide = merged(Span(start, end + SMALLEST_GAP_MS) for start, end in found.compute)
    return {
        "compute": [[round(start, 3), round(end - SMALLEST_GAP_MS, 3)] for start, end in wide],
        "collectives": [
            {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(each).items()}
            for each in found.intervals
        ],
        "phases": {name: [round(at, 3) for at in span] for name, span in found.phases.items()},
    }


def timeline(kept: dict[str, Any]) -> Overlap:
    """The Overlap again, from what a recording kept of it."""
    phases = {name: Span(*span) for name, span in kept["phases"].items()}
    collectives = [Collective(**each) for each in kept["collectives"]]
    return overlap_of((Span(*span) for span in kept["compute"]), collectives, phases)
