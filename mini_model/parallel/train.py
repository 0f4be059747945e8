"""The same training on many devices: torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp

torchrun starts the ranks and ends them all when one fails; several nodes are a matter of its own flags (--nnodes, …).
Here each rank takes its device, the model is spread by `mini_model.parallel`, and rank 0 speaks for all. If torchrun
itself is killed, its ranks end too.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from .. import PARENT
from ..checkpoint import CheckpointError, other_threads
from ..loop import Settings, judge, run_steps
from ..model import MiniGPT, config
from . import checkpoint as sharded_checkpoint
from . import patterns
from .apply import Parallel, make_mesh, parallelize

COMMAND = "torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp"


def main(settings: Settings, options: argparse.Namespace) -> int:
    """Trains on torchrun's ranks and prints the report, on rank 0. The exit code is the same on every rank.

    options: those of `mini_model.train`.
    """
    first = os.environ.get("RANK", "0") == "0"
    start = time.perf_counter()
    try:
        sizes = _sizes(settings, options)
        device = _device(options.device)
    except ValueError as error:
        return _leave(f"error: {error}", 1)
    threading.Thread(target=_end_with, args=(PARENT,), daemon=True).start()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    stopped = _heed_control_c()
    try:
        spread = train(settings, options, sizes, device)
        weights = spread.full_weights()
    except BaseException as error:
        if stopped:  # whatever it has become: torch makes errors of its own of an interrupt
            kept = (
                f"the same command continues from {options.checkpoint}" if options.checkpoint else "nothing was saved"
            )
            return _leave(f"\nstopped; {kept}", 130)
        if isinstance(error, CheckpointError | FloatingPointError):
            return _leave(f"error: {error}", 1)
        raise
    dist.destroy_process_group()
    if first:
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
    mesh = make_mesh(options.parallel, device=device.type, **sizes)
    spread = parallelize(
        model,
        options.parallel,
        mesh,
        schedule=options.schedule,
        microbatches=options.microbatches,
        mode=_mode(options.mode),
    )
    optimizer = _optimizer(spread)
    folder: Path | None = options.checkpoint
    # Tensor parallel orders the rows of qkv by head; otherwise every pattern's slices are of the same tensors.
    run = asdict(settings) | {"tensor_parallel": "tp" in sizes}

    def save(done: int) -> None:
        if folder:
            sharded_checkpoint.save(folder, run, done, _state(spread, optimizer))

    found = sharded_checkpoint.load(folder, run, _state(spread, optimizer)) if folder else None
    if found is None:
        save(0)  # a full disk or a wrong folder is found now, not after the training
    first_rank = dist.get_rank() == 0
    if found and first_rank:
        print(f"continuing from {folder} at step {found.step} of {settings.steps}", file=sys.stderr)
        note = other_threads(found.threads, device.type)
        if note and found.step < settings.steps:
            print(f"note: {note}", file=sys.stderr)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return spread.step(inputs.to(device), targets.to(device))

    todo = range(found.step if found else 0, settings.steps)
    bar = tqdm(todo, initial=todo.start, total=todo.stop, unit="step", desc=options.parallel, disable=not first_rank)
    run_steps(bar, settings, optimizer, step, save, options.every)
    return spread


def _sizes(settings: Settings, options: argparse.Namespace) -> dict[str, int]:
    """The mesh, before anything is built. ValueError if there are no ranks for it or something does not divide."""
    if "RANK" not in os.environ:
        raise ValueError(f"--parallel {options.parallel} needs the ranks that torchrun starts: {COMMAND}")
    if not options.parallel:
        raise ValueError(
            f"torchrun started {os.environ['WORLD_SIZE']} ranks, and without --parallel each would train a model "
            f"of its own. Say how they share the work: {COMMAND}"
        )
    model = config(settings.config)
    sizes = patterns.mesh_sizes(model, options.parallel, int(os.environ["WORLD_SIZE"]), **options.mesh)
    patterns.check(model, options.parallel, sizes, options.schedule, options.microbatches, _mode(options.mode))
    patterns.check_batch(settings.batch, sizes, options.microbatches)
    return sizes


def _mode(name: str) -> str | None:
    return None if name == "eager" else name


def _device(name: str) -> torch.device:
    """This rank's device: the CPU, or the GPU of its number on this machine."""
    if not name.startswith("cuda"):
        return torch.device("cpu")
    number, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if int(os.environ["LOCAL_WORLD_SIZE"]) > gpus:
        raise ValueError(
            f"{os.environ['LOCAL_WORLD_SIZE']} ranks on a machine with {gpus} GPUs: each rank takes one. "
            f"Take --nproc-per-node {gpus}, or --device cpu"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _optimizer(spread: Parallel) -> torch.optim.Optimizer:
    """The AdamW of `mini_model.train`, with its state there from the start, so that a checkpoint can fill it."""
    optimizer = torch.optim.AdamW(spread.parameter_groups(), lr=0.0, betas=(0.9, 0.98), weight_decay=0, fused=True)
    for parameter in spread.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # at a rate of zero: it changes nothing, and only a step makes the state
    for state in optimizer.state.values():
        state["step"].zero_()
    return optimizer


def _state(spread: Parallel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a checkpoint holds: weights and the optimizer's moments, under the names of the one-process model."""
    named = dict(spread.named_parameters())
    return {
        "model": {name: parameter.detach() for name, parameter in named.items()},
        "optimizer": {name: optimizer.state[parameter] for name, parameter in named.items()},
    }


def _heed_control_c() -> list[int]:
    """Fills with the signal when there is one; torchrun passes Control-C on to every rank."""
    stopped: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    return stopped


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone: a torchrun that is killed by SIGKILL has not ended its ranks.

    In a thread of its own, for the rank may wait for another in a collective. A checkpoint is whole at any moment. Each
    rank says so, past Python's own buffers: the first to notice takes the others' collectives with it.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    try:
        os.write(2, f"error: torchrun is gone, so rank {os.environ.get('RANK', '0')} ends\n".encode())
    finally:
        os._exit(1)


def _leave(message: str, code: int) -> int:
    """Rank 0 says why. After an error the others wait for torchrun to end them: it ends all with the first to leave."""
    if not _say(message) and code == 1:
        time.sleep(30)
    return code


def _say(message: str) -> bool:
    """True on rank 0, which says it for all."""
    first = os.environ.get("RANK", "0") == "0"
    if first:
        print(message, file=sys.stderr, flush=True)
    return first
