"""The recording ``overlap``: a step under DDP and FSDP2 on 2, 4 and 8 ranks, and how much communication is hidden."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compile_lab.devices import ranks
from compile_lab.devices import steps as overlap_runs
from compile_lab.devices.overlap import on_the_wire
from compile_lab.simulator.overlap import Overlap, Span, Transfer, merged, overlap_of

from ...registry import Progress
from .. import subjects

RANKS = (2, 4, 8)
MODEL = {"cuda": "gpt2-124m", "cpu": "mini"}
BATCHES = {"cuda": (8, 32), "cpu": (2, 4)}
"""Sequences on each rank, as long as the model's context. With more of them a GPU has more to do, its host has not."""

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


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Steps of GPT-2 124M under DDP and FSDP2, as plain JSON values. About 80 s for each number of ranks.

    Returns ``{"model", "precision", "runs": [{"ranks", "batch", "case", "by_rank": [row], "timeline"}]}``, and a row is

    - "step_ms", "low_ms", "high_ms": the step, its median and quartiles; "host_ms": until the host had issued it;
    - of a profiled step: "span_ms", "compute_ms", "communication_ms", "exposed_ms", "fraction";
    - the same without waiting for another rank (`on_the_wire`): "wire_ms", "wire_exposed_ms", "wire_fraction". They are
      left out where the ranks' collectives do not match.

    The timeline is rank 0's, for `timeline`. On GPUs each number of ranks that this machine has; on a CPU, to try it,
    two with a small model.
    Raises RuntimeError on a machine with one GPU: there is nobody to send to.
    """
    most = torch.cuda.device_count() if device == "cuda" else 2
    if most < 2:
        raise RuntimeError(f"overlap needs at least 2 GPUs, and {most} is here: record it on a machine that has them")
    backend = "nccl" if device == "cuda" else "gloo"
    runs = []
    for n, batch in progress([(n, batch) for n in RANKS if n <= most for batch in BATCHES[device]]):
        found = ranks.run(_on_rank, n, device, batch, timeout=300, backend=backend)
        runs += [{"ranks": n, "batch": batch} | told(case, [each[case] for each in found]) for case in found[0]]
    precision = "bf16 autocast, parameters and gradients in float32" if device == "cuda" else "float32"
    return {"model": MODEL[device], "precision": precision, "runs": runs}


def _on_rank(device: str, batch: int) -> dict[str, overlap_runs.StepRun]:
    steps = {name: _ddp_step(device, batch, mb) for name, mb in DDP_BUCKETS.items()}
    steps |= {name: _fsdp_step(device, batch, *case) for name, case in FSDP_CASES.items()}
    steps[NOTHING_SENT] = _ddp_step(device, batch, None, send=False)
    return overlap_runs.measured(steps, device=device)


def _ddp_step(device: str, batch: int, bucket_mb: float | None, send: bool = True) -> Callable[[], None]:
    model = subjects.minigpt(MODEL[device], device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    step = step_of(ddp, device, subjects.tokens(model, batch))

    def quiet() -> None:
        with ddp.no_sync():
            step()

    return step if send else quiet


def _fsdp_step(device: str, batch: int, reshard: bool, told: Callable[[list[Any]], None]) -> Callable[[], None]:
    model = subjects.minigpt(MODEL[device], device)
    inputs = subjects.tokens(model, batch)
    blocks = [fully_shard(block, reshard_after_forward=reshard) for block in model.blocks]
    fully_shard(model, reshard_after_forward=reshard)
    told(blocks)
    return step_of(model, device, inputs)


def step_of(run: nn.Module, device: str, inputs: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW(run.parameters(), fused=True)

    def forward(*given: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            return run(*given)

    return overlap_runs.training_step(forward, optimizer, *inputs)


def told(case: str, by_rank: list[overlap_runs.StepRun]) -> dict[str, Any]:
    rows = [_rounded(run, ("step_ms", "low_ms", "high_ms", "host_ms")) for run in by_rank]
    seen = [run.overlap for run in by_rank]
    for row, found in zip(rows, seen, strict=True):
        row |= _rounded(found, ("span_ms", "compute_ms", "communication_ms", "exposed_ms", "fraction"))
    if not seen[0].intervals:
        return {"case": case, "by_rank": rows, "timeline": None}
    try:
        wires: list[Overlap] | None = on_the_wire(seen)
    except ValueError:  # on a CPU, where gloo's threads carry several at once, in any order
        wires = None
    for row, wire in zip(rows, wires or (), strict=False):
        kept = _rounded(wire, ("communication_ms", "exposed_ms", "fraction"))
        row |= {f"wire_{key.removeprefix('communication_')}": value for key, value in kept.items()}
    return {"case": case, "by_rank": rows, "timeline": as_json(seen[0], wires and wires[0])}


def _rounded(found: Any, keys: tuple[str, ...]) -> dict[str, float]:
    return {key: round(getattr(found, key), 4) for key in keys}


def as_json(overlap: Overlap, wire: Overlap | None = None) -> dict[str, Any]:
    """An Overlap as JSON values, to a microsecond; gaps in compute below `SMALLEST_GAP_MS` are closed.

    `wire`: the same by `on_the_wire`. Each collective is kept with what it takes there, else with None.
    """
    wide = merged(Span(start, end + SMALLEST_GAP_MS) for start, end in overlap.compute)
    taken = {(each.name, each.lane, each.end_ms): round(each.time_ms, 3) for each in wire.intervals} if wire else {}
    return {
        "compute": [[round(start, 3), round(end - SMALLEST_GAP_MS, 3)] for start, end in wide],
        "collectives": [
            {
                "name": each.name,
                "start_ms": round(each.start_ms, 3),
                "end_ms": round(each.end_ms, 3),
                "nbytes": each.nbytes,
                "lane": each.lane,
                "wire_ms": taken.get((each.name, each.lane, each.end_ms)),
            }
            for each in overlap.intervals
        ],
        "phases": {name: [round(at, 3) for at in span] for name, span in overlap.phases.items()},
    }


def timeline(kept: dict[str, Any], waiting: bool = True) -> Overlap:
    """The Overlap again, from what a recording kept of it; without what each collective waits for, if you ask so.

    Raises ValueError where it is not known what they take on the wire.
    """
    phases = {name: Span(*span) for name, span in kept["phases"].items()}
    compute, collectives = [Span(*span) for span in kept["compute"]], []
    for each in kept["collectives"]:
        start, end, wire_ms = each["start_ms"], each["end_ms"], each["wire_ms"]
        waited = 0.0 if wire_ms is None else max(0.0, end - start - wire_ms)
        if not waiting:
            if wire_ms is None:
                raise ValueError("the ranks' collectives did not match: what they take on the wire is not known")
            start, waited = start + waited, 0.0
        collectives.append(Transfer(each["name"], start, end, each["nbytes"], 0.0, each["lane"], waited))
    return overlap_of(compute, collectives, phases)
