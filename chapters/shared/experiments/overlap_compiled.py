"""The recording ``overlap_compiled``: a step under compiled DDP, under SimpleFSDP and under FSDP2, all in one run."""

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from compile_lab._torch.dynamo import dynamo_config
from compile_lab.devices import ranks
from compile_lab.devices import steps as overlap_runs
from compile_lab.devices.compiled_ddp import WAYS as DDP_WAYS
from compile_lab.devices.step_collectives import in_buckets
from compile_lab.measure.allocator import peak

from ...registry import Progress
from .. import subjects
from .overlap import BATCHES, MODEL, NOTHING_SENT, as_row, ranks_there, step_of

VOCABULARY = {"cuda": 50_304, "cpu": 600}
"""Rows that ranks can share equally, as `simple_fsdp` asks; GPT-2's own 50,257 are odd."""

BUCKET_MB = 25
FSDP_WAYS: dict[str, dict[str, Any]] = {"as it is": {}, f"{BUCKET_MB} MB": in_buckets(BUCKET_MB)}
FSDP2_WAYS = {
    "eager": (False, False, True),
    "blocks compiled": (True, False, True),
    "compiled": (True, True, True),
    "compiled, weights kept": (True, True, False),
}
"""For each way of FSDP2: are the blocks compiled, are the head and the loss, and are weights sharded again after the
forward? SimpleFSDP, as it is used here, keeps them."""

ROUNDS = 15
LOSSES = 3
"""Losses that are kept of each case: all train the same model on the same tokens."""

Step = Callable[[], Tensor]
Cases = dict[str, Callable[[], Step]]
"""Steps not yet made, by name."""


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Steps of GPT-2 124M as plain JSON values like those of `overlap.record`. Some 170 s for each batch.

    Each run has two keys more: "losses", rank 0's first ones, and "rise_nbytes", what a step takes above what lies
    there between steps. A case that this torch does not compile has ``{"case", "stopped"}``, the error's first line.
    Raises RuntimeError on a machine with one GPU.
    """
    return compared(_cases, device, BATCHES[device], progress)


def compared(
    cases: Callable[[str, int, DeviceMesh], Cases], device: str, batches: Sequence[int], progress: Progress
) -> dict[str, Any]:
    """The steps that `cases` makes on each rank, in turns, for each batch; what `record` returns."""
    n = max(ranks_there(device))
    runs = []
    for batch in progress(batches):
        backend = "nccl" if device == "cuda" else "gloo"
        found = ranks.run(_on_rank, n, cases, device, batch, timeout=580, backend=backend)
        measured, begun, stopped = zip(*found, strict=True)
        about = {"ranks": n, "batch": batch}
        runs += [about | begun[0][case] | as_row(case, [each[case] for each in measured]) for case in measured[0]]
        runs += [about | {"case": case, "stopped": why} for case, why in stopped[0].items()]
    precision = "bf16 autocast, parameters and gradients in float32" if device == "cuda" else "float32"
    return {"model": MODEL[device], "vocabulary": VOCABULARY[device], "precision": precision, "runs": runs}


def _on_rank(
    cases: Callable[[str, int, DeviceMesh], Cases], device: str, batch: int
) -> tuple[dict[str, overlap_runs.StepRun], dict[str, dict[str, Any]], dict[str, str]]:
    """The steps measured; each one's first losses and the most that it took; and what this torch refused."""
    steps: dict[str, Step] = {}
    begun: dict[str, dict[str, Any]] = {}
    stopped: dict[str, str] = {}
    with dynamo_config.patch(recompile_limit=64):  # the cases share the code of one forward
        for name, make in cases(device, batch, init_device_mesh(device, (dist.get_world_size(),))).items():
            try:
                step = make()
                losses = [step() for _ in range(LOSSES)]
                with peak(device) as memory:
                    step()
            except Exception as error:
                why = str(error).strip().partition("\n")[0]
                stopped[name] = f"{type(error).__name__}: {textwrap.shorten(why, 160, placeholder=' …')}"
            else:
                steps[name] = step
                begun[name] = {"losses": [round(float(each), 5) for each in losses], "rise_nbytes": memory.rise_nbytes}
        return overlap_runs.measured(steps, device=device, rounds=ROUNDS), begun, stopped


def _cases(device: str, batch: int, mesh: DeviceMesh) -> Cases:
    ddp = {f"DDP, {way}": functools.partial(_ddp_step, device, batch, way) for way in DDP_WAYS if way != "eager"}
    rivals = {f"FSDP2, {way}": functools.partial(_fsdp2_step, device, batch, *how) for way, how in FSDP2_WAYS.items()}
    quiet = {NOTHING_SENT: functools.partial(_ddp_step, device, batch, "one graph", send=False)}
    return ddp | fsdp_cases(FSDP_WAYS, device, batch, mesh) | rivals | quiet


def fsdp_cases(ways: Mapping[str, dict[str, Any]], device: str, batch: int, mesh: DeviceMesh) -> Cases:
    """A step under SimpleFSDP compiled with each of these options, under its name."""
    return {
        f"FSDP, {way}": functools.partial(_fsdp_step, device, batch, mesh, options) for way, options in ways.items()
    }


def _model(device: str, name: str, **methods: Callable[..., Tensor]) -> "subjects.MiniGPT":
    """A class of its own for each case: a guard asks for it, or one case would run the code of another."""
    model = subjects.minigpt(MODEL[device], device, VOCABULARY[device])
    model.__class__ = type(name.title().replace(" ", "").replace(",", ""), (type(model),), methods)
    return model


def _ddp_step(device: str, batch: int, way: str, send: bool = True) -> Step:
    model, cut = _model(device, f"{way} {send}"), DDP_WAYS[way]
    inputs = subjects.tokens(model, batch)
    if cut is not None:
        model.compile()
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    step = step_of(ddp, device, inputs)

    def taken() -> Tensor:
        with dynamo_config.patch(optimize_ddp=bool(cut)), nullcontext() if send else ddp.no_sync():
            return step()

    return taken


def _fsdp_step(device: str, batch: int, mesh: DeviceMesh, options: dict[str, Any]) -> Step:
    model = _model(device, "fsdp " + " ".join(map(str, options)))
    inputs = subjects.tokens(model, batch)
    sharded = subjects.sliced(model, mesh)
    sharded.compile(fullgraph=True, options=options)
    return step_of(sharded, device, inputs)


def _fsdp2_step(device: str, batch: int, blocks: bool, head: bool, reshard: bool) -> Step:
    """Each block is compiled and then sharded, as torch's documentation has it."""
    # Any: a MiniGPT that is given a function, and what torch's containers hold has no type.
    model: Any = _model(device, f"fsdp2 {blocks} {head} {reshard}", forward=_with_loss_apart)
    inputs = subjects.tokens(model, batch)
    model.loss_of = torch.compile(_loss, fullgraph=True) if head else _loss
    for block in model.blocks:
        if blocks:
            block.compile(fullgraph=True)
        fully_shard(block, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)
    return step_of(model, device, inputs)


def _with_loss_apart(model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    """MiniGPT's forward; what follows the blocks is one function, which may be compiled."""
    x = model.token_embedding(tokens) + model.position_embedding(torch.arange(tokens.shape[1], device=tokens.device))
    for block in model.blocks:
        x = block(x)
    return model.loss_of(model.norm, model.head, x, targets)


def _loss(norm: nn.Module, head: nn.Module, x: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(head(norm(x)).flatten(0, 1), targets.flatten())
