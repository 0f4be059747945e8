"""What a rank of torchrun does besides training: its place and device, a common end, a checkpoint to go on from."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .. import PARENT, stops
from ..checkpoint import CheckpointError, other_threads
from ..loop import Settings
from ..model import config
from . import checkpoint as sharded_checkpoint
from . import patterns
from .apply import Parallel

T = TypeVar("T")


def sizes(
    settings: Settings,
    pattern: str | None,
    command: str,
    mesh: dict[str, int] | None = None,
    schedule: str = "1F1B",
    microbatches: int = 4,
    mode: str | None = None,
) -> dict[str, int]:
    """The mesh, before anything is built. ValueError if there are no ranks for it or something does not divide.

    command: how torchrun is called, for the error. The others as in `patterns.check`.
    """
    if "RANK" not in os.environ:
        raise ValueError(f"--parallel {pattern} needs the ranks that torchrun starts: {command}")
    if not pattern:
        raise ValueError(
            f"torchrun started {os.environ['WORLD_SIZE']} ranks, and without --parallel each would train a model "
            f"of its own. Say how they share the work: {command}"
        )
    model = config(settings.config)
    found = patterns.mesh_sizes(model, pattern, int(os.environ["WORLD_SIZE"]), **(mesh or {}))
    patterns.check(model, pattern, found, schedule, microbatches, mode)
    patterns.check_batch(settings.batch, found, microbatches)
    return found


def device(name: str) -> torch.device:
    """This rank's device: the CPU, or the GPU of its number on this machine. ValueError if there is none for it."""
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


def at_work(work: Callable[[], T], device: torch.device, kept: str) -> T:
    """What `work` returns, done by all ranks at once, which then part.

    SystemExit, on every rank, after an interrupt, a CheckpointError, a loss that is no number, or when another rank is
    gone; the reason has been told. kept: what to say of the checkpoint then. If torchrun itself is killed, this rank
    ends, too.
    """
    threading.Thread(target=_end_with, args=(PARENT,), daemon=True).start()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    raised: list[int] = []
    try:
        with stops.raised() as raised:
            found = work()
    except BaseException as error:
        stops.ends_at_once()
        if raised or isinstance(error, KeyboardInterrupt):  # torch makes errors of its own of an interrupt
            stopped = error if isinstance(error, KeyboardInterrupt) else stops.Stopped(raised[0])
            when = f" {stopped}" if stopped.args else ""
            raise SystemExit(leave(f"\nstopped{when}; {kept}", stops.code(stopped))) from None
        if isinstance(error, CheckpointError | FloatingPointError):
            raise SystemExit(leave(f"error: {error}", 1)) from None
        if _is_of_a_lost_rank(error):
            own = os.environ.get("RANK", "0")
            os.write(2, f"error: another rank is gone, so rank {own} ends; {kept}\n".encode())
            raise SystemExit(1) from None
        raise
    dist.destroy_process_group()
    return found


def _is_of_a_lost_rank(error: BaseException) -> bool:
    """Gloo raises a plain RuntimeError, which names its own source; NCCL and the store have classes of theirs."""
    told = str(error)
    gone = any(words in told for words in ("Connection closed by peer", "Connection reset by peer", "Broken pipe"))
    return isinstance(error, dist.DistNetworkError) or (isinstance(error, RuntimeError) and "gloo" in told and gone)


def leave(message: str, code: int) -> int:
    """Rank 0 says why. After an error the others wait for torchrun to end them: it ends all with the first to leave."""
    if is_first():
        print(message, file=sys.stderr, flush=True)
    elif code == 1:
        time.sleep(30)
    return code


def is_first() -> bool:
    """Whether this is the rank that speaks for all."""
    return os.environ.get("RANK", "0") == "0"


def ready(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The same AdamW with its state there from the start, so that a checkpoint can fill it."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # at a rate of zero: it changes nothing, and only a step makes the state
    for state in optimizer.state.values():
        state["step"].zero_()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    return optimizer


def state_of(parallel: Parallel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a checkpoint holds: weights and the optimizer's moments, under the names of the one-process model."""
    named = dict(parallel.named_parameters())
    return {
        "model": {name: parameter.detach() for name, parameter in named.items()},
        "optimizer": {name: optimizer.state[parameter] for name, parameter in named.items()},
    }


def restore(
    folder: Path, run: dict[str, Any], parallel: Parallel, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """The step to go on with: that of the folder's checkpoint, or 0, and then a first checkpoint is written.

    As `mini_model.checkpoint.restore`; rank 0 says what the user should know. run["steps"]: of the whole run.
    """
    state = state_of(parallel, optimizer)
    found = sharded_checkpoint.load(folder, run, state)
    if found is None:
        sharded_checkpoint.save(folder, run, 0, state)
        return 0
    if is_first():
        print(f"continuing from {folder} at step {found.step} of {run['steps']}", file=sys.stderr)
        note = other_threads(found.threads, device.type)
        if note and found.step < run["steps"]:
            print(f"note: {note}", file=sys.stderr)
    return found.step


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
