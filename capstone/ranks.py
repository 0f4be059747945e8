"""`capstone.train` on many devices: torchrun --nproc-per-node 2 -m capstone.train --parallel fsdp

Each rank takes its device and its rows of every batch; rank 0 speaks for all, keeps the log and judges the model. The
checkpoint is a folder, from which any number of ranks goes on.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import torch
import torch.distributed as dist
from torch import Tensor

from mini_model.checkpoint import way_on
from mini_model.parallel import checkpoint as sharded_checkpoint
from mini_model.parallel import patterns, rank
from mini_model.parallel.apply import make_mesh, parallelize

from .data import Corpus, corpus
from .log import Journal, TrainingLog
from .options import COMMAND, DTYPES, TrainingOptions
from .run import go_on, initial, peak_bytes, report_on, where
from .steps import adamw


def main(options: TrainingOptions) -> int:
    """Trains on torchrun's ranks and prints the report, on rank 0. Returns the exit code, the same on every rank."""
    start = time.perf_counter()
    try:
        mode = None if options.compile == "none" else options.compile
        sizes = rank.sizes(options.settings, options.parallel, COMMAND, mode=mode)
        patterns.check_length(options.window, sizes)
        device = rank.device(options.device)
        data = corpus(options.text, options.shape.vocabulary, options.window)
    except ValueError as error:
        return rank.leave(f"error: {error}", 1)
    work = rank.at_work(lambda: train(options, data, sizes, device), device, way_on(options.checkpoint))
    if rank.is_first():
        journal, weights, peak, ranks = work
        print(report_on(options, data, journal, weights, time.perf_counter() - start, peak, ranks))
    return 0


def train(
    options: TrainingOptions, data: Corpus, sizes: dict[str, int], device: torch.device
) -> tuple[Journal, dict[str, Tensor], int, int]:
    """Every rank calls it: the run's journal, all weights on the CPU, the largest rank's peak bytes, the ranks.

    CheckpointError, on every rank, as in `capstone.train.train`.
    """
    with ExitStack() as stack:
        if options.checkpoint:
            stack.enter_context(sharded_checkpoint.held(options.checkpoint))
        return _train(options, data, sizes, device, stack)


def _train(
    options: TrainingOptions, data: Corpus, sizes: dict[str, int], device: torch.device, stack: ExitStack
) -> tuple[Journal, dict[str, Tensor], int, int]:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    assert options.parallel is not None  # `run` set it
    spread = parallelize(
        initial(options, device),
        options.parallel,
        make_mesh(options.parallel, devices=None, device=device.type, config=None, **sizes),
        dtype=None if options.dtype == "float32" else DTYPES[options.dtype],
        mode=None if options.compile == "none" else options.compile,
    )
    optimizer = rank.ready(adamw(dict(spread.named_parameters()), decay=options.decay))
    folder, run = options.checkpoint, options.run(data.name)
    first = rank.restore(folder, run, spread, optimizer, device) if folder else 0
    logs: list[TrainingLog] = []

    def open_log() -> None:
        assert options.log is not None
        logs.append(stack.enter_context(TrainingLog(options.log, run, first, where(options, dist.get_world_size()))))

    def save(done: int) -> None:
        if folder:
            sharded_checkpoint.save(folder, run, done, rank.state_of(spread, optimizer))

    def agreed(mine: int) -> int:
        return _largest(mine, device)

    if options.log:
        sharded_checkpoint.on_first_rank(open_log)
    log = logs[0] if logs else None
    journal = go_on(
        options, data, optimizer, spread.step, save, first, log, device, show=rank.is_first(), agreed=agreed
    )
    return journal, spread.full_weights(), _largest(peak_bytes(device), device), dist.get_world_size()


def _largest(mine: int, device: torch.device) -> int:
    """Of a number that each rank has."""
    every = torch.tensor(mine, device=device)
    dist.all_reduce(every, dist.ReduceOp.MAX)
    return int(every)
