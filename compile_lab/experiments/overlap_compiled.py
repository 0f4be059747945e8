"""The recording ``overlap_compiled``: a compiled step under DDP, cut at its buckets and whole, and under SimpleFSDP in
each order of its collectives."""

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from .._torch.dynamo import dynamo_config
from ..devices import ranks
from ..devices import steps as overlap_runs
from ..devices.compiled_ddp import WAYS as DDP_WAYS
from ..devices.step_collectives import WAYS, in_buckets
from . import subjects
from .overlap import BATCHES, MODEL, NOTHING_SENT, RANKS, step_of, told
from .registry import Progress

VOCABULARY = {"cuda": 50_304, "cpu": 600}
"""Rows that ranks can share equally, as `simple_fsdp` asks; GPT-2's own 50,257 are odd."""

BUCKET_MB = 25
FSDP_WAYS = {name: WAYS[name] for name in ("as it is", "reordered")} | {f"{BUCKET_MB} MB": in_buckets(BUCKET_MB)}
GPU_WAYS = {name: WAYS[name] for name in ("scheduled", "scheduled in buckets")}
"""Inductor's estimates behind these are of GPUs alone."""

Step = Callable[[], None]
Cases = dict[str, Callable[[], Step]]
"""Steps not yet made, by name."""


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Steps of GPT-2 124M, compiled, as plain JSON values like those of `overlap.record`. Some 300 s for each batch.

    A case that this torch does not compile has ``{"case", "stopped"}``, the error's first line.
    Raises RuntimeError on a machine with one GPU.
    """
    return compared(_cases, device, BATCHES[device], progress)


def compared(
    cases: Callable[[str, int, DeviceMesh], Cases], device: str, batches: Sequence[int], progress: Progress
) -> dict[str, Any]:
    """The steps that `cases` makes on each rank, in turns, for each batch; what `record` returns."""
    most = torch.cuda.device_count() if device == "cuda" else 2
    if most < 2:
        raise RuntimeError(f"a step that sends needs at least 2 GPUs, and {most} is here: record it where there are")
    n = max(n for n in RANKS if n <= most)
    runs = []
    for batch in progress(batches):
        backend = "nccl" if device == "cuda" else "gloo"
        found = ranks.run(_on_rank, n, cases, device, batch, timeout=580, backend=backend)
        measured, stopped = zip(*found, strict=True)
        runs += [{"ranks": n, "batch": batch} | told(case, [each[case] for each in measured]) for case in measured[0]]
        runs += [{"ranks": n, "batch": batch, "case": case, "stopped": why} for case, why in stopped[0].items()]
    precision = "bf16 autocast, parameters and gradients in float32" if device == "cuda" else "float32"
    return {"model": MODEL[device], "vocabulary": VOCABULARY[device], "precision": precision, "runs": runs}


def _on_rank(
    cases: Callable[[str, int, DeviceMesh], Cases], device: str, batch: int
) -> tuple[dict[str, overlap_runs.StepRun], dict[str, str]]:
    steps, stopped = {}, {}
    with dynamo_config.patch(recompile_limit=64):  # the cases share the code of one forward
        for name, make in cases(device, batch, init_device_mesh(device, (dist.get_world_size(),))).items():
            try:
                step = make()
                step()
            except Exception as error:
                why = str(error).strip().partition("\n")[0]
                stopped[name] = f"{type(error).__name__}: {textwrap.shorten(why, 160, placeholder=' …')}"
            else:
                steps[name] = step
        return overlap_runs.measured(steps, device=device), stopped


def _cases(device: str, batch: int, mesh: DeviceMesh) -> Cases:
    ddp = {f"DDP, {way}": functools.partial(_ddp_step, device, batch, way) for way in DDP_WAYS}
    fsdp = fsdp_cases(FSDP_WAYS | (GPU_WAYS if device == "cuda" else {}), device, batch, mesh)
    return ddp | fsdp | {NOTHING_SENT: functools.partial(_ddp_step, device, batch, "one graph", send=False)}


def fsdp_cases(ways: Mapping[str, dict[str, Any]], device: str, batch: int, mesh: DeviceMesh) -> Cases:
    """A step under SimpleFSDP compiled with each of these options, under its name."""
    return {
        f"FSDP, {way}": functools.partial(_fsdp_step, device, batch, mesh, options) for way, options in ways.items()
    }


def _model(device: str, name: str) -> nn.Module:
    """A class of its own for each case: a guard asks for it, or one case would run the code of another."""
    model = subjects.minigpt(MODEL[device], device, VOCABULARY[device])
    model.__class__ = type(name.title().replace(" ", "").replace(",", ""), (type(model),), {})
    return model


def _ddp_step(device: str, batch: int, way: str, send: bool = True) -> Step:
    model, cut = _model(device, f"{way} {send}"), DDP_WAYS[way]
    inputs = subjects.tokens(model, batch)
    if cut is not None:
        model.compile()
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    step = step_of(ddp, device, inputs)

    def taken() -> None:
        with dynamo_config.patch(optimize_ddp=bool(cut)):
            if send:
                return step()
            with ddp.no_sync():
                step()

    return taken


def _fsdp_step(device: str, batch: int, mesh: DeviceMesh, options: dict[str, Any]) -> Step:
    model = _model(device, "fsdp " + " ".join(map(str, options)))
    inputs = subjects.tokens(model, batch)
    sharded = subjects.sliced(model, mesh)
    sharded.compile(fullgraph=True, options=options)
    return step_of(sharded, device, inputs)
