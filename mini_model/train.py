"""Trains MiniGPT on the grammar: python -m mini_model.train --help

On many devices: torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp (see `mini_model.parallel.train`).

Batches are a pure function of (seed, step) and the model has no dropout, so that a checkpoint needs no state of a
random generator: a run that was killed and continued has the same losses as one that was not (eager, same machine,
and on a CPU the same number of threads, since that decides in which order sums are added).
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from . import ab, arguments, checkpoint, inputs, lock, stops
from .checkpoint import CheckpointError
from .loop import Settings, judge, run_steps, windows
from .model import CONFIGS, MiniGPT, config
from .parallel.patterns import PATTERNS

MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def train(
    settings: Settings,
    mode: str = "eager",
    device: str = "cpu",
    file: Path | None = None,
    every: int = 100,
    tell: Callable[[ab.ABCheck], None] | None = None,
) -> MiniGPT:
    """The model after settings.steps steps of AdamW.

    mode: "eager", or a mode of torch.compile. file: a checkpoint is written there every `every` steps, and a run with
    the same settings continues from it; nobody else may be at work on it. tell: after a compiled training it is handed
    what a few steps more, eager and compiled, say of whether that paid; they change nothing. CheckpointError as in
    `mini_model.checkpoint`, and while another run has the file; ValueError or TypeError for other input that does not
    go; FloatingPointError when the loss is no longer finite, with nothing saved after that.
    """
    inputs.instance("settings", settings, Settings)
    config(settings.config), inputs.one_of("mode", mode, MODES), inputs.whole("every", every)
    device = inputs.device(device)
    if file is None:
        return _train(settings, mode, device, None, every, tell)
    file = inputs.path("file", file)
    with lock.held(lock.lock_file(file), checkpoint=file):
        return _train(settings, mode, device, file, every, tell)


def _train(
    settings: Settings, mode: str, device: str, file: Path | None, every: int, tell: Callable[[ab.ABCheck], None] | None
) -> MiniGPT:
    torch.manual_seed(settings.seed)
    model = MiniGPT(config(settings.config)).to(device)
    # No weight decay: no window comes twice, so nothing is overfitted, and decay keeps probability on wrong words.
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0, fused=True)
    first = checkpoint.restore(file, asdict(settings), model, optimizer, device, _say) if file else 0
    loss_of = model if mode == "eager" else torch.compile(model, mode=mode, fullgraph=True)

    first_s: list[float] = []

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        begin = time.perf_counter()
        loss = loss_of(inputs.to(device), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        if not first_s:  # the step that compiles
            _wait(device)
            first_s.append(time.perf_counter() - begin)
        return loss

    def save(done: int) -> None:
        if file:
            checkpoint.save(file, asdict(settings), done, model.state_dict(), optimizer.state_dict())

    bar = tqdm(range(first, settings.steps), initial=first, total=settings.steps, unit="step", desc=mode)
    run_steps(bar, settings, optimizer, step, save, every)
    if tell and first_s and mode != "eager":
        tell(_compared(model, loss_of, settings, device, settings.steps - first, first_s[0]))
    return model


def _compared(
    model: MiniGPT, compiled: Callable[..., Tensor], settings: Settings, device: str, steps: int, first_s: float
) -> ab.ABCheck:
    """Forward and backward of a batch, eager and compiled in turn. No optimizer steps, so the weights stay."""
    batch = [part.to(device) for part in windows(settings, settings.batch, stream=0)]

    def of(called: Callable[..., Tensor]) -> Callable[[], None]:
        def step() -> None:
            called(*batch).backward()
            model.zero_grad()
            _wait(device)

        return step

    model.zero_grad()
    return ab.check(of(model), of(compiled), steps, first_s)


def _wait(device: str) -> None:
    if "cuda" in device:
        torch.cuda.synchronize(device)


def _say(note: str) -> None:
    print(note, file=sys.stderr)


def main(words: Sequence[str] | None = None) -> int:
    # Under torchrun, the other ranks would say the same.
    with redirect_stderr(io.StringIO()) if os.environ.get("RANK", "0") != "0" else nullcontext():
        options = parsed(words)
    settings = Settings(options.config, options.steps, options.batch, options.lr, options.seed)
    start = time.perf_counter()
    if options.parallel or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        from .parallel import train as scale_out  # torch.distributed takes three seconds to import

        return scale_out.main(settings, options)
    try:
        found: list[ab.ABCheck] = []
        tell = found.append if options.ab else None
        with stops.raised():
            model = train(settings, options.mode, options.device, options.checkpoint, options.every, tell)
            seconds = time.perf_counter() - start
            print(judge(model, settings))
    except (CheckpointError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        return stops.report_stop(stopped, checkpoint.way_on(options.checkpoint))
    device = torch.cuda.get_device_name(options.device) if "cuda" in options.device else "cpu"
    threads = f", {torch.get_num_threads()} threads" if device == "cpu" else ""
    print(f"training time     {seconds:.0f} s on {device}{threads}, mode {options.mode}, torch {torch.__version__}")
    for check in found:
        print(f"was it worth it?  {check}")
    return 0


OF_RANKS = {"mesh": {}, "schedule": "1F1B", "microbatches": 4}
"""Options that say nothing without --parallel, and what they are then."""


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command line. Ends the program, with the reason, for what does not go, or not together."""
    parser = _parser()
    options = parser.parse_args(words)
    for name, default in OF_RANKS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif not options.parallel:
            parser.error(f"--{name} is about many devices: add --parallel PATTERN, or leave it out")
        elif name != "mesh" and options.parallel in PATTERNS and "pp" not in PATTERNS[options.parallel].axes:
            parser.error(f"--{name} is of a pipeline, and --parallel {options.parallel} has none: leave it out")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mini_model.train",
        description="Train MiniGPT on the grammar.",
        epilog="The same command continues from its checkpoint, eager and on the same machine with the losses of one "
        "uninterrupted run; on a CPU that takes the same number of threads (OMP_NUM_THREADS), because it decides in "
        "which order sums are added. A checkpoint keeps that number, and a run that has another one says so.",
    )
    default, add = Settings(), parser.add_argument
    add("--config", choices=CONFIGS, default=default.config, help="default: %(default)s")
    add("--mode", choices=MODES, default="eager", help="eager, or a mode of torch.compile")
    add("--ab", action=argparse.BooleanOptionalAction, default=True, help="compiled: say at the end whether it paid")
    add("--steps", type=arguments.count, default=default.steps, help="default: %(default)s, tuned for mini")
    add("--batch", type=arguments.count, default=default.batch, help="windows a step; default: %(default)s")
    add("--lr", type=arguments.rate, default=default.lr, help="peak learning rate; default: %(default)s")
    add("--seed", type=arguments.seed, default=default.seed, help="of weights and data; default: %(default)s")
    add("--device", type=arguments.device, default="cuda" if torch.cuda.is_available() else "cpu")
    add("--checkpoint", type=Path, help="write it here, and continue from it if it is there")
    add("--every", type=arguments.count, default=100, help="steps between checkpoints; default: %(default)s")
    add("--parallel", metavar="PATTERN", help="under torchrun: ddp, fsdp, hsdp, tp, tp+sp, pp, fsdp+tp, …")
    add("--mesh", type=arguments.sizes, metavar="AXIS=N,…", help="sizes of the mesh, such as tp=4")
    add("--schedule", help=f"of the pipeline; default: {OF_RANKS['schedule']}")
    add("--microbatches", type=arguments.count, help=f"of the pipeline; default: {OF_RANKS['microbatches']}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
