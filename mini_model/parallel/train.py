"""The same training on many devices: torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp

torchrun starts the ranks and ends them all when one fails; several nodes are a matter of its own flags (--nnodes, …).
Here each rank takes its device, the model is spread by `mini_model.parallel`, and rank 0 speaks for all. If torchrun
itself is killed, its ranks end too.
"""

from __future__ import annotations

import argparse
import math
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
from tqdm import tqdm

from ..checkpoint import way_on
from ..loop import Settings, judge, run_steps
from ..model import MiniGPT, config
from . import checkpoint as sharded_checkpoint
from . import patterns, rank
from .apply import Parallel, make_mesh, parallelize

__all__ = ["COMMAND", "main", "patterns", "train"]

COMMAND = "torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp"


def main(settings: Settings, options: argparse.Namespace) -> int:
    """Trains on torchrun's ranks and prints the report, on rank 0. The exit code is the same on every rank.

    options: those of `mini_model.train`.
    """
    start = time.perf_counter()
    try:
        pipeline = options.mesh, options.schedule, options.microbatches, _mode(options.mode)
        sizes = rank.sizes(settings, options.parallel, COMMAND, *pipeline)
        device = rank.device(options.device)
    except ValueError as error:
        return rank.leave(f"error: {error}", 1)
    kept = way_on(options.checkpoint)
    weights = rank.at_work(lambda: train(settings, options, sizes, device).full_weights(), device, kept)
    if rank.is_first():
        seconds = time.perf_counter() - start
        model = MiniGPT(config(settings.config)).to(device)
        model.load_state_dict(weights)
        print(judge(model, settings))
        mesh = " × ".join(f"{axis} {size}" for axis, size in sizes.items())
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        where = f"{math.prod(sizes.values())} ranks ({options.parallel}: {mesh}) on {name}"
        print(f"training time     {seconds:.0f} s with {where}, mode {options.mode}, torch {torch.__version__}")
    return 0


def train(settings: Settings, options: argparse.Namespace, sizes: dict[str, int], device: torch.device) -> Parallel:
    """The model after settings.steps steps, spread over the ranks. Every rank calls it.

    With options.checkpoint, a folder, it saves there and continues from there, on any number of ranks. CheckpointError
    as in `mini_model.parallel.checkpoint`, and while another run has the folder.
    """
    with sharded_checkpoint.held(options.checkpoint) if options.checkpoint else nullcontext():
        return _train(settings, options, sizes, device)


def _train(settings: Settings, options: argparse.Namespace, sizes: dict[str, int], device: torch.device) -> Parallel:
    torch.manual_seed(settings.seed)
    model = MiniGPT(config(settings.config)).to(device)
    mesh = make_mesh(options.parallel, devices=None, device=device.type, config=None, **sizes)
    spread = parallelize(
        model,
        options.parallel,
        mesh,
        schedule=options.schedule,
        microbatches=options.microbatches,
        mode=_mode(options.mode),
    )
    groups = spread.parameter_groups()
    optimizer = rank.ready(torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), weight_decay=0, fused=True))
    folder: Path | None = options.checkpoint
    # Tensor parallel orders the rows of qkv by head; otherwise every pattern's slices are of the same tensors.
    run = asdict(settings) | {"tensor_parallel": "tp" in sizes}

    def save(done: int) -> None:
        if folder:
            sharded_checkpoint.save(folder, run, done, rank.state_of(spread, optimizer))

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return spread.step(inputs.to(device), targets.to(device))

    todo = range(rank.restore(folder, run, spread, optimizer, device) if folder else 0, settings.steps)
    silent = dist.get_rank() != 0
    bar = tqdm(todo, initial=todo.start, total=todo.stop, unit="step", desc=options.parallel, disable=silent)
    run_steps(bar, settings, optimizer, step, save, options.every)
    return spread


def _mode(name: str) -> str | None:
    return None if name == "eager" else name
