"""Trains MiniGPT on the grammar: python -m mini_model.train --help

On many devices: torchrun --nproc-per-node 2 -m mini_model.train --parallel fsdp (see `mini_model.parallel.train`).

Batches are a pure function of (seed, step) and the model has no dropout, so that a checkpoint needs no state of a
random generator: a run that was killed and continued has the same losses as one that was not (eager, same machine).
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from . import checkpoint
from .checkpoint import CheckpointError
from .loop import Settings, judge, run_steps
from .model import CONFIGS, MiniGPT, config

MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def train(
    settings: Settings,
    mode: str = "eager",
    device: str = "cpu",
    file: Path | None = None,
    every: int = 100,
) -> MiniGPT:
    """The model after settings.steps steps of AdamW.

    mode: "eager", or a mode of torch.compile. file: a checkpoint is written there every `every` steps, and a run with
    the same settings continues from it. CheckpointError as in `mini_model.checkpoint`; ValueError for an unknown
    mode or config; FloatingPointError when the loss is no longer finite, with nothing saved after that.
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    torch.manual_seed(settings.seed)
    model = MiniGPT(config(settings.config)).to(device)
    # No weight decay: no window comes twice, so nothing is overfitted, and decay keeps probability on wrong words.
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0, fused=True)
    first = _restore(file, settings, model, optimizer, device)
    loss_of = model if mode == "eager" else torch.compile(model, mode=mode, fullgraph=True)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = loss_of(inputs.to(device), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        return loss

    def save(done: int) -> None:
        if file:
            checkpoint.save(file, asdict(settings), done, model.state_dict(), optimizer.state_dict())

    bar = tqdm(range(first, settings.steps), initial=first, total=settings.steps, unit="step", desc=mode)
    run_steps(bar, settings, optimizer, step, save, every)
    return model


def _restore(
    file: Path | None, settings: Settings, model: MiniGPT, optimizer: torch.optim.Optimizer, device: str
) -> int:
    """The step to go on with: that of the checkpoint, or 0, and then a first checkpoint is written.

    Writing it at once finds a full disk or a wrong folder before the training, not after it.
    """
    if file is None:
        return 0
    found = checkpoint.load(file, asdict(settings), device)
    if found is None:
        checkpoint.save(file, asdict(settings), 0, model.state_dict(), optimizer.state_dict())
        return 0
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    print(f"continuing from {file} at step {found['step']} of {settings.steps}", file=sys.stderr)
    return found["step"]


def main(arguments: Sequence[str] | None = None) -> int:
    # Under torchrun, the other ranks would say the same.
    with redirect_stderr(io.StringIO()) if os.environ.get("RANK", "0") != "0" else nullcontext():
        options = _parser().parse_args(arguments)
    settings = Settings(options.config, options.steps, options.batch, options.lr, options.seed)
    start = time.perf_counter()
    if options.parallel or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        from .parallel import train as scale_out  # torch.distributed takes three seconds to import

        return scale_out.main(settings, options)
    try:
        model = train(settings, options.mode, options.device, options.checkpoint, options.every)
        seconds = time.perf_counter() - start
        print(judge(model, settings))
    except (CheckpointError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kept = f"the same command continues from {options.checkpoint}" if options.checkpoint else "nothing was saved"
        print(f"\nstopped; {kept}", file=sys.stderr)
        return 130
    device = torch.cuda.get_device_name(options.device) if "cuda" in options.device else "cpu"
    threads = f", {torch.get_num_threads()} threads" if device == "cpu" else ""
    print(f"training time     {seconds:.0f} s on {device}{threads}, mode {options.mode}, torch {torch.__version__}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mini_model.train", description="Train MiniGPT on the grammar.")
    default = Settings()
    parser.add_argument("--config", choices=CONFIGS, default=default.config, help="default: %(default)s")
    parser.add_argument("--mode", choices=MODES, default="eager", help="eager, or a mode of torch.compile")
    parser.add_argument("--steps", type=_count, default=default.steps, help="default: %(default)s, tuned for mini")
    parser.add_argument("--batch", type=_count, default=default.batch, help="windows a step; default: %(default)s")
    parser.add_argument("--lr", type=_rate, default=default.lr, help="peak learning rate; default: %(default)s")
    parser.add_argument("--seed", type=_seed, default=default.seed, help="of weights and data; default: %(default)s")
    parser.add_argument("--device", type=_device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", type=Path, help="write it here, and continue from it if it is there")
    parser.add_argument("--every", type=_count, default=100, help="steps between checkpoints; default: %(default)s")
    parser.add_argument(
        "--parallel", metavar="PATTERN", help="under torchrun: ddp, fsdp, hsdp, tp, tp+sp, pp, fsdp+tp, …"
    )
    parser.add_argument("--mesh", type=_sizes, default={}, metavar="AXIS=N,…", help="sizes of the mesh, such as tp=4")
    parser.add_argument("--schedule", default="1F1B", help="of the pipeline; default: %(default)s")
    parser.add_argument("--microbatches", type=_count, default=4, help="of the pipeline; default: %(default)s")
    return parser


def _sizes(text: str) -> dict[str, int]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and size.isdecimal() for name, _, size in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} are not sizes of axes, such as shard=2,tp=4")
    return {name: int(size) for name, _, size in pairs}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**63 - 1")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return rate


def _device(text: str) -> str:
    try:
        if torch.device(text).type not in ("cpu", "cuda"):
            raise RuntimeError("cpu and cuda are the devices to train on")
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used here ({reason}); try cpu") from error
    return text


if __name__ == "__main__":
    sys.exit(main())
