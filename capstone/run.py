"""What one process and many ranks share of a training: the model before its first step, the steps, the report.

The program is `capstone.train`; `capstone.ranks` is the same on many devices.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._functorch.config as functorch_config  # of torch 2.11 and 2.13: the budget has no public name
from torch import Tensor
from torch.utils.checkpoint import checkpoint as run_again
from tqdm import tqdm

from mini_model import stops
from mini_model.loop import mean_loss, run_steps
from mini_model.model import Block, MiniGPT

from .data import Corpus
from .log import Journal, LoggedStep, TrainingLog
from .options import TrainingOptions

VALIDATION_BATCH = 2048
"""Tokens at a time, if a batch of training has not more."""


@dataclass(frozen=True)
class TrainingReport:
    """What a training came to. Losses in nats per token, which of a text is a byte."""

    options: TrainingOptions
    first: int
    """Steps done before, by a run that this one continued."""
    steps: tuple[LoggedStep, ...]
    validation_loss: float
    """In float32, not compiled, on windows that were not trained on."""
    unit: str
    floor: float | None
    """The grammar's entropy; None of a text."""
    tokens_per_s: float | None
    """Over all ranks: the median over the steps but the first, without saving; None if no step was left to do."""
    peak_bytes: int
    """Of a GPU what torch allocated, else of the whole process; of many ranks the largest."""
    seconds: float
    """From the start to the last checkpoint, compiling included."""
    where: str
    model: MiniGPT = field(repr=False)
    """Plain: neither compiled nor spread nor checkpointed."""

    @property
    def losses(self) -> tuple[float, ...]:
        """Of the batches of this run's steps."""
        return tuple(step.loss for step in self.steps)

    @property
    def bits_per_byte(self) -> float | None:
        """Of the validation text; None of the grammar, whose tokens are words."""
        return self.validation_loss / math.log(2) if self.unit == "byte" else None

    def __str__(self) -> str:
        bits = "" if self.bits_per_byte is None else f", {self.bits_per_byte:.4f} bits per byte"
        lines = [f"validation loss   {self.validation_loss:.4f} nats per {self.unit}{bits}"]
        if self.floor is not None:
            lines.append(f"grammar's entropy {self.floor:.4f} nats per {self.unit}, the floor")
        if self.tokens_per_s is not None:
            lines.append(f"speed             {self.tokens_per_s:,.0f} tokens/s")
        whose = "of the GPU, as torch allocated it" if "cuda" in self.options.device else "of the process"
        lines.append(f"peak memory       {self.peak_bytes / 1e6:,.0f} MB {whose}")
        lines.append(f"training time     {self.seconds:.1f} s for {len(self.steps)} steps on {self.where}")
        return "\n".join(lines)


class CheckpointedBlock(Block):
    """The same block, of which only the input is kept: the backward runs it again."""

    def forward(self, x: Tensor) -> Tensor:
        # Nothing is drawn in a block, so no state of a generator need be kept for the second run.
        return run_again(super().forward, x, use_reentrant=False, preserve_rng_state=False)


def initial(options: TrainingOptions, device: str | torch.device) -> MiniGPT:
    """The model before its first step; with checkpointing, each of its blocks keeps its input only."""
    torch.manual_seed(options.seed)
    model = MiniGPT(options.shape).to(device)
    for block in model.blocks if options.checkpointing else ():
        block.__class__ = CheckpointedBlock
    return model


def go_on(
    options: TrainingOptions,
    data: Corpus,
    optimizer: torch.optim.Optimizer,
    gradients: Callable[[Tensor, Tensor], Tensor],
    save: Callable[[int], None],
    first: int,
    log: TrainingLog | None,
    device: str | torch.device,
    show: bool = False,
    agreed: Callable[[int], int] | None = None,
) -> Journal:
    """The steps after the first `first` ones: gradients, clipping, the optimizer, log, checkpoint.

    gradients: from inputs and targets, on the device, to the loss, with gradients left on the optimizer's parameters.
    save: keeps a checkpoint of a number of steps. agreed: the signal that any rank got, from that of this one, or 0.
    KeyboardInterrupt after an interrupt, when the step it came in is complete and saved; ranks, which have to agree on
    it, wait for the next step whose loss is read.
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    journal = Journal(
        log, first, options.steps, options.every, options.batch * options.window, torch.device(device).type
    )
    norm = torch.zeros(())

    def there(part: Tensor) -> Tensor:  # without waiting for the step before it
        return part.pin_memory().to(device, non_blocking=True) if torch.device(device).type == "cuda" else part

    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        nonlocal norm
        loss = gradients(there(tokens), there(targets))
        found = torch.nn.utils.clip_grad_norm_(parameters, options.clip or math.inf)
        norm = getattr(found, "full_tensor", lambda: found)()  # of slices, each rank has its part
        return loss

    def keep(done: int) -> None:
        if log:
            log.sync()
        save(done)
        journal.mark()

    def batch(number: int) -> tuple[Tensor, Tensor]:
        return data.training(options.batch, options.window, options.seed, number)

    todo = range(first, options.steps)
    bar = tqdm(todo, initial=first, total=options.steps, unit="step", disable=not show)
    with stops.noted() as noted, _budget(options):

        def seen(done: int, loss: Tensor) -> None:
            read = journal.seen(done, loss, optimizer.param_groups[0]["lr"], norm, now=bool(noted and not agreed))
            mine = noted[0] if noted else 0
            if read and (number := agreed(mine) if agreed else mine):
                keep(done)
                raise stops.Stopped(number, f"after step {done} of {options.steps}")

        run_steps(bar, options.settings, optimizer, step, keep, options.every, batch=batch, seen=seen)
    return journal


@contextmanager
def _budget(options: TrainingOptions) -> Iterator[None]:
    """While this is open, the compiler has options.budget, if there is one.

    torch's guards do not know of it: a step compiled with another budget would do. So all that was compiled in this
    process is forgotten, before and after.
    """
    if options.budget is None:
        yield
        return
    torch.compiler.reset()
    try:
        with functorch_config.patch(activation_memory_budget=options.budget):
            yield
    finally:
        torch.compiler.reset()


def report_on(
    options: TrainingOptions,
    data: Corpus,
    journal: Journal,
    weights: Mapping[str, Tensor],
    seconds: float,
    peak: int,
    ranks: int = 1,
) -> TrainingReport:
    """The report of a training that came to its end with these weights."""
    plain = MiniGPT(options.shape)
    plain.load_state_dict(weights)
    plain.to(options.device)
    batch = max(options.batch, VALIDATION_BATCH // options.window)
    loss = mean_loss(plain, *data.validation(options.window, options.seed), batch)
    there = where(options, ranks)
    threads = f", {there['threads']} thread{'s' * (there['threads'] > 1)}" if there["device"] == "cpu" else ""
    return TrainingReport(
        options,
        journal.first,
        tuple(journal.steps),
        loss,
        data.unit,
        data.floor(options.window),
        journal.tokens_per_s(),
        peak,
        seconds,
        f"{there['device']}{threads}{f', {ranks} ranks ({options.parallel})' * (ranks > 1)}, torch {torch.__version__}",
        plain,
    )


def where(options: TrainingOptions, ranks: int = 1) -> dict[str, Any]:
    """What a log's header says of how and where a run is computed."""
    device = torch.cuda.get_device_name(options.device) if "cuda" in options.device else "cpu"
    how = {name: getattr(options, name) for name in ("parallel", "compile", "budget", "checkpointing")}
    return {"torch": torch.__version__, "device": device, "threads": torch.get_num_threads(), "ranks": ranks, **how}


def peak_bytes(device: str | torch.device) -> int:
    """The most memory so far: of a GPU what torch allocated for tensors, else of this process."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
