"""The recording ``overlap``: a step under DDP and FSDP2 on 2, 4 and 8 ranks, and how much communication is hidden.

In several settings, from one whose communication is a small part of the step to one whose communication is a large
part. Before a setting's steps run, a step that sends nothing and the wire alone are measured; what the model of the
wire (`simulator.wire`) makes of these is printed, and kept as each run's "predicted".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compile_lab.devices import ranks
from compile_lab.devices import steps as overlap_runs
from compile_lab.devices.overlap import on_the_wire
from compile_lab.simulator.overlap import Overlap, Span, Transfer, merged, overlap_of
from compile_lab.simulator.wire import MB, Gradient, ddp_overlap, fsdp_order, measured_wire
from compile_lab.simulator.wire import step_of as carried_out

from ...registry import Progress
from .. import subjects
from . import collectives

MODEL = {"cuda": "gpt2-124m", "cpu": "mini"}
BATCHES = {"cuda": (8, 32), "cpu": (2, 4)}
"""Sequences on each rank, as long as the model's context. With more of them a GPU has more to do, its host has not."""

WIDE: dict[str, dict[str, int]] = {
    "cuda": {"vocabulary": subjects.GPT2_PADDED, "dim": 3072, "layers": 4, "heads": 24},
    "cpu": {"dim": 128, "layers": 2},
}
"""A model that is wide and not deep: many bytes to send for each launch, so that its host keeps ahead."""
THROUGH_HOST = {"NCCL_P2P_DISABLE": "1"}
"""The GPUs send through the host's memory and not to each other: a link as slow as one between machines."""
_KINDS = ("all_reduce", "all_gather", "reduce_scatter")
WIRE_SIZES = {"cuda": [2**power for power in range(12, 31, 2)], "cpu": [2**12, 2**16, 2**20]}
"""Bytes of the collectives that are timed alone."""


@dataclass(frozen=True)
class Setting:
    """What a step trains, with so many sequences on each rank, over which link."""

    batch: int
    wide: bool = False
    through_host: bool = False

    @property
    def named(self) -> dict[str, Any]:
        return {"batch": self.batch, "wide": self.wide, "through_host": self.through_host}

    def __str__(self) -> str:
        model = "wide model" if self.wide else "model"
        return f"{model}, {self.batch} sequences{', through host memory' if self.through_host else ''}"


SETTINGS = {
    "cuda": (
        *(Setting(batch) for batch in BATCHES["cuda"]),
        Setting(1, wide=True),
        Setting(2, wide=True),
        Setting(32, through_host=True),
    ),
    "cpu": (Setting(2), Setting(2, wide=True)),
}

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
"""For each: are parameters sharded again after the forward, and what is set on the blocks."""


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Steps of GPT-2 124M and of a wide model under DDP and FSDP2, as plain JSON values. Some 50 s for each setting.

    Returns ``{"model", "wide", "precision", "alone", "runs", "failed"}``. "alone" has for each setting the wire's rates
    and, in milliseconds, a step that sends nothing and its phases; both were measured, and "predicted" computed from
    them, before the runs. "runs" is ``[{"ranks", "batch", "wide", "through_host", "case", "predicted", "by_rank":
    [row], "timeline"}]``, and a row is

    - "step_ms", "low_ms", "high_ms": the step, its median and quartiles; "host_ms": until the host had issued it;
    - of a profiled step: "span_ms", "compute_ms", "communication_ms", "exposed_ms", "fraction";
    - the same without waiting for another rank (`on_the_wire`): "wire_ms", "wire_exposed_ms", "wire_fraction". They are
      left out where the ranks' collectives do not match.

    The timeline is rank 0's, for `timeline`. On GPUs each number of ranks that this machine has; on a CPU, to try it,
    two with a small model. "failed": settings that did not run, and why.
    Raises RuntimeError on a machine with one GPU: there is nobody to send to.
    """
    sizes = ranks_there(device)
    backend = "nccl" if device == "cuda" else "gloo"
    alone, runs, failed = [], [], []
    for n, setting in progress([(n, setting) for n in sizes for setting in SETTINGS[device]]):
        options: dict[str, Any] = {
            "timeout": 200,
            "backend": backend,
            "env": THROUGH_HOST if setting.through_host else None,
        }
        about = {"ranks": n} | setting.named
        try:
            measured = ranks.run(_alone, n, device, setting, **options)[0]
            forecast = predicted(measured, shape(device, setting.wide), n)
            print(f"predicted, {n} ranks, {setting}: {forecast}", flush=True)
            found = ranks.run(_on_rank, n, device, setting, **options)
        except ranks.RankFailed as error:
            failed.append(about | {"why": str(error).splitlines()[-1]})
            continue
        alone.append(about | measured)
        for case in found[0]:
            said = {"predicted": forecast.get(case)}
            runs.append(about | said | as_row(case, [each[case] for each in found]))
    precision = "bf16 autocast, parameters and gradients in float32" if device == "cuda" else "float32"
    about = {"model": MODEL[device], "wide": WIDE[device], "precision": precision}
    return about | {"alone": alone, "runs": runs, "failed": failed}


def ranks_there(device: str) -> list[int]:
    """Numbers of ranks that this machine has devices for. RuntimeError on a machine with one GPU."""
    sizes = collectives.sizes_of_groups(device)
    if not sizes:
        there = torch.cuda.device_count()
        raise RuntimeError(f"a step that sends needs at least 2 GPUs, and {there} is here: record it where there are")
    return sizes


def chosen(result: Mapping[str, Any], batch: int, wide: bool = False, through_host: bool = False) -> dict[str, Any]:
    """By case, the runs of a setting on the most ranks that have it."""
    wanted = Setting(batch, wide, through_host).named.items()
    such = [run for run in result["runs"] if wanted <= run.items()]
    most = max((run["ranks"] for run in such), default=0)
    return {run["case"]: run for run in such if run["ranks"] == most}


def wires(result: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """By kind, how long a collective of so many bytes takes alone, over the link and on the ranks of `chosen`."""
    wanted = Setting(batch, False, False).named.items()
    such = [each for each in result["alone"] if wanted <= each.items()]
    rates = max(such, key=lambda each: each["ranks"])["rates"]
    return {kind: measured_wire(rates, kind) for kind in _KINDS}


@dataclass(frozen=True)
class _Shape:
    """Bytes of the gradients in the order in which DDP takes them, of a block, and of the tied embedding."""

    nbytes: tuple[int, ...]
    block: int
    blocks: int
    head: int


def shape(device: str, wide: bool) -> _Shape:
    model = _model("meta", wide, like=device)
    nbytes = tuple(each.nbytes for each in reversed(list(model.parameters())))
    block = sum(each.nbytes for each in model.blocks[0].parameters())
    return _Shape(nbytes, block, len(model.blocks), model.token_embedding.weight.nbytes)


def predicted(alone: Mapping[str, Any], of: _Shape, n: int) -> dict[str, dict[str, float]]:
    """By case, on paper, from the wire alone and a step that sends nothing.

    A gradient takes a share of the backward as large as its bytes; under FSDP2 blocks and head are matmuls of one
    size. The step is what sends nothing plus what is exposed, and FSDP2's optimizer has but its part of the parameters.
    """
    wire = {kind: measured_wire(alone["rates"], kind) for kind in _KINDS}
    forward, backward, optimizer = (alone[f"{phase}_ms"] for phase in ("forward", "backward", "optimizer"))
    found = {}
    for case, mb in DDP_BUCKETS.items():
        foretold = ddp_overlap(
            _gradients(of, backward),
            backward,
            cap_nbytes=(mb or 25) * MB,
            first_nbytes=None if mb else MB,
            collective_ms=wire["all_reduce"],
            forward_ms=forward,
        )
        found[case] = _prediction(foretold, alone["step_ms"])
    for case, (reshard, _) in FSDP_CASES.items():
        matmuls = round(of.head / of.block)
        order = fsdp_order(of.blocks, matmuls, "no prefetch" not in case, reshard)
        takes = [_takes(token, of, wire) for token in order if token[:2] in ("AG", "RS")]
        carried = carried_out(order, (forward + backward) / 3 / (of.blocks + matmuls), takes)
        found[case] = _prediction(carried, alone["step_ms"] - optimizer * (1 - 1 / n))
    return found


def _gradients(of: _Shape, backward_ms: float) -> list[Gradient]:
    """The tied embedding's has its first part from the backward's first matmul, and is ready last."""
    made, each = of.head, []
    for size in of.nbytes[:-1]:
        made += size
        each.append(Gradient(backward_ms * made / sum(of.nbytes), size))
    return [*each, Gradient(backward_ms, of.nbytes[-1])]


def _takes(token: str, of: _Shape, wire: Mapping[str, Callable[[int], float]]) -> float:
    root = int(token[2:]) % (of.blocks + 1) == 0
    nbytes = sum(of.nbytes) - of.blocks * of.block if root else of.block
    return wire["all_gather" if token[:2] == "AG" else "reduce_scatter"](nbytes)


def _prediction(overlap: Overlap, rest_ms: float) -> dict[str, float]:
    kept = _rounded(overlap, ("communication_ms", "exposed_ms", "fraction"))
    return kept | {"step_ms": round(rest_ms + overlap.exposed_ms, 4)}


def _model(on: str, wide: bool, like: str | None = None) -> Any:
    return subjects.minigpt(MODEL[like or on], on, **(WIDE[like or on] if wide else {}))


def _alone(device: str, setting: Setting) -> dict[str, Any]:
    """The wire's rates, and a step that sends nothing: its time, and what of it belongs to which phase."""
    quiet = {NOTHING_SENT: _ddp_step(device, setting, None, send=False)}
    run = overlap_runs.measured(quiet, device=device)[NOTHING_SENT]
    phases, span = run.overlap.phases, run.overlap.span_ms
    named = {"forward": "forward", "backward": "gradients", "optimizer": "optimizer"}
    parts = {f"{name}_ms": round(phases[of].time_ms / span * run.step_ms, 4) for name, of in named.items()}
    rates = collectives.rows(device, _KINDS, WIRE_SIZES[device])
    kept = [{key: each[key] for key in ("kind", "nbytes", "median_us", "low_us", "high_us")} for each in rates]
    return _rounded(run, ("step_ms", "low_ms", "high_ms", "host_ms")) | parts | {"rates": kept}


def _on_rank(device: str, setting: Setting) -> dict[str, overlap_runs.StepRun]:
    steps = {name: _ddp_step(device, setting, mb) for name, mb in DDP_BUCKETS.items()}
    steps |= {name: _fsdp_step(device, setting, *case) for name, case in FSDP_CASES.items()}
    steps[NOTHING_SENT] = _ddp_step(device, setting, None, send=False)
    return overlap_runs.measured(steps, device=device)


def _ddp_step(device: str, setting: Setting, bucket_mb: float | None, send: bool = True) -> Callable[[], object]:
    model = _model(device, setting.wide)
    ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    step = step_of(ddp, device, subjects.tokens(model, setting.batch))

    def quiet() -> None:
        with ddp.no_sync():
            step()

    return step if send else quiet


def _fsdp_step(
    device: str, setting: Setting, reshard: bool, on_blocks: Callable[[list[Any]], None]
) -> Callable[[], torch.Tensor]:
    model = _model(device, setting.wide)
    inputs = subjects.tokens(model, setting.batch)
    blocks = [fully_shard(block, reshard_after_forward=reshard) for block in model.blocks]
    fully_shard(model, reshard_after_forward=reshard)
    on_blocks(blocks)
    return step_of(model, device, inputs)


def step_of(run: nn.Module, device: str, inputs: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW(run.parameters(), fused=True)

    def forward(*given: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            return run(*given)

    return overlap_runs.training_step(forward, optimizer, *inputs)


def as_row(case: str, by_rank: list[overlap_runs.StepRun]) -> dict[str, Any]:
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
    return {"case": case, "by_rank": rows, "timeline": as_json(seen[0], wires[0] if wires else None)}


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
