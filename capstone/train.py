"""Trains a GPT on the grammar or on any text: python -m capstone.train --help

On many devices: torchrun --nproc-per-node 2 -m capstone.train --parallel fsdp (see `capstone.ranks`). In a notebook:
``train(TrainingOptions(...))``, which prints nothing.

A killed run loses at most what came after its last checkpoint, and continued on a CPU in float32, with as many threads,
it ends with the losses of one that nobody killed: a batch is a pure function of (seed, step), and nothing else is drawn
after the first weights.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, redirect_stderr

import torch
from torch import Tensor

from mini_model import checkpoint, inputs, lock, stops
from mini_model.checkpoint import CheckpointError
from mini_model.model import MiniGPT

from .data import Corpus, TextError, corpus
from .log import Journal, TrainingLog
from .options import COMMAND, DTYPES, TrainingOptions, parsed
from .run import TrainingReport, go_on, initial, peak_bytes, report_on, where
from .steps import adamw


def train(options: TrainingOptions, tell: Callable[[str], None] | None = None, show: bool = False) -> TrainingReport:
    """Trains in this process, from the checkpoint if there is one, and judges the model.

    tell: is handed what the user should know of a continued run. show: a progress bar on stderr. An interrupt
    (Control-C, SIGTERM, SIGHUP) ends the step, saves, and is a KeyboardInterrupt then, `mini_model.stops.Stopped`.
    CheckpointError as in `mini_model.checkpoint`, and while another run has the checkpoint or the log; LogError, which
    is one, as in `TrainingLog`; ValueError as in `capstone.data.corpus`, and for options of many ranks;
    FloatingPointError when the loss is no number any more, with nothing saved after that.
    """
    inputs.instance("options", options, TrainingOptions)
    if options.parallel:
        raise ValueError(f"parallel {options.parallel!r} needs the ranks that torchrun starts: {COMMAND}")
    start = time.perf_counter()
    data = corpus(options.text, options.shape.vocabulary, options.window)
    file = options.checkpoint
    with lock.held(lock.lock_file(file), checkpoint=file) if file else nullcontext():
        model, journal = _trained(options, data, tell or (lambda note: None), show)
    seconds, peak = time.perf_counter() - start, peak_bytes(options.device)
    return report_on(options, data, journal, model.state_dict(), seconds, peak)


def _trained(
    options: TrainingOptions, data: Corpus, tell: Callable[[str], None], show: bool
) -> tuple[MiniGPT, Journal]:
    device, run = options.device, options.run(data.name)
    if "cuda" in device:
        torch.cuda.reset_peak_memory_stats(device)
    model = initial(options, device)
    optimizer = adamw(dict(model.named_parameters()), decay=options.decay)
    first = checkpoint.restore(options.checkpoint, run, model, optimizer, device, tell) if options.checkpoint else 0
    loss_of = model if options.compile == "none" else in_one_graph(model, options.compile)

    def gradients(tokens: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        with autocast(options):
            loss = loss_of(tokens, targets)
        loss.backward()
        return loss.detach().clone()  # a CUDA graph overwrites what it returned

    def save(done: int) -> None:
        if options.checkpoint:
            checkpoint.save(options.checkpoint, run, done, model.state_dict(), optimizer.state_dict())

    with ExitStack() as stack:
        log = stack.enter_context(TrainingLog(options.log, run, first, where(options))) if options.log else None
        return model, go_on(options, data, optimizer, gradients, save, first, log, device, show)


def in_one_graph(model: MiniGPT, mode: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The model's loss compiled, in a mode of torch.compile."""
    return torch.compile(model, mode=mode, fullgraph=True, dynamic=False)


def autocast(options: TrainingOptions) -> torch.autocast:
    """The computation in options.dtype."""
    dtype = DTYPES[options.dtype]
    return torch.autocast(torch.device(options.device).type, dtype, enabled=dtype != torch.float32)


def main(words: Sequence[str] | None = None) -> int:
    """The command: trains and prints the report. Returns the exit code."""
    first = os.environ.get("RANK", "0") == "0"
    with nullcontext() if first else redirect_stderr(io.StringIO()):  # the other ranks would say the same
        options = parsed(words)
    if options.parallel or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        from . import ranks  # torch.distributed takes three seconds to import

        return ranks.main(options)
    try:
        with stops.raised():
            print(train(options, lambda note: print(note, file=sys.stderr), show=True))
    except (CheckpointError, FloatingPointError, TextError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        return stops.report_stop(stopped, checkpoint.way_on(options.checkpoint))
    return 0


if __name__ == "__main__":
    sys.exit(main())
