"""Trains a GPT on the grammar or on any text: python -m capstone.train --help

On many devices: torchrun --nproc-per-node 2 -m capstone.train --parallel fsdp (see `capstone.ranks`). In a notebook:
``train(TrainingOptions(...))``, which prints nothing.

A killed run loses at most what came after its last checkpoint, and continued on a CPU in float32, with as many threads,
it ends with the losses of one that nobody killed: a batch is a pure function of (seed, step), and nothing else is drawn
after the first weights.
"""

from __future__ import annotations

import io
import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field

import torch
import torch._functorch.config as functorch_config  # of torch 2.11 and 2.13: the budget has no public name
from torch import Tensor
from torch.utils.checkpoint import checkpoint as run_again
from tqdm import tqdm

from mini_model import checkpoint, inputs, lock
from mini_model.checkpoint import CheckpointError
from mini_model.loop import mean_loss, run_steps
from mini_model.model import Block, MiniGPT

from .data import Corpus, TextError, corpus
from .log import Journal, LoggedStep, TrainingLog
from .options import COMMAND, DTYPES, TrainingOptions, parsed
from .steps import adamw

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


def train(options: TrainingOptions, tell: Callable[[str], None] | None = None, show: bool = False) -> TrainingReport:
    """Trains in this process, from the checkpoint if there is one, and judges the model.

    tell: is handed what the user should know of a continued run. show: a progress bar on stderr. An interrupt
    (Control-C) ends the step, saves, and is a KeyboardInterrupt then. CheckpointError as in `mini_model.checkpoint`,
    and while another run has the file; LogError, which is one, as in `TrainingLog`; ValueError as in
    `capstone.data.corpus`, and for options of many ranks; FloatingPointError when the loss is no number any more, with
    nothing saved after that.
    """
    inputs.instance("options", options, TrainingOptions)
    if options.parallel:
        raise ValueError(f"parallel {options.parallel!r} needs the ranks that torchrun starts: {COMMAND}")
    start = time.perf_counter()
    data = corpus(options.text, options.shape.vocabulary, options.window)
    file = options.checkpoint
    with lock.held(file.parent / f".{file.name}.lock", checkpoint=file) if file else nullcontext():
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


def autocast(options: TrainingOptions) -> torch.autocast:
    """The computation in options.dtype."""
    dtype = DTYPES[options.dtype]
    return torch.autocast(torch.device(options.device).type, dtype, enabled=dtype != torch.float32)


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
    agreed: Callable[[bool], bool] = bool,
) -> Journal:
    """The steps after the first `first` ones: gradients, clipping, the optimizer, log, checkpoint.

    gradients: from inputs and targets, on the device, to the loss, with gradients left on the optimizer's parameters.
    save: keeps a checkpoint of a number of steps. agreed: whether any rank was interrupted, from whether this one was.
    KeyboardInterrupt after an interrupt, when the step it came in is complete and saved.
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
    with _interrupts() as interrupted, _budget(options):

        def seen(done: int, loss: Tensor) -> None:
            read = journal.seen(done, loss, optimizer.param_groups[0]["lr"], norm)
            if read and agreed(bool(interrupted)):
                keep(done)
                raise KeyboardInterrupt(f"after step {done} of {options.steps}")

        run_steps(bar, options.settings, optimizer, step, keep, options.every, batch=batch, seen=seen)
    return journal


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """While this is open, a first Control-C is only noted in the list: half a step is nothing to save.

    A second one is as it always was. Outside of the main thread nothing changes: no signal comes there.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        noted.append(number)
        if "RANK" not in os.environ:  # torchrun passes one Control-C on more than once
            signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


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


def where(options: TrainingOptions, ranks: int = 1) -> dict[str, object]:
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


def main(words: Sequence[str] | None = None) -> int:
    """The command: trains and prints the report. Returns the exit code."""
    first = os.environ.get("RANK", "0") == "0"
    with nullcontext() if first else redirect_stderr(io.StringIO()):  # the other ranks would say the same
        options = parsed(words)
    if options.parallel or int(os.environ.get("WORLD_SIZE", 1)) > 1:
        from . import ranks  # torch.distributed takes three seconds to import

        return ranks.main(options)
    try:
        print(train(options, lambda note: print(note, file=sys.stderr), show=True))
    except (CheckpointError, FloatingPointError, TextError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        print(f"\nstopped{f' {stopped}' * bool(stopped.args)}; {way_on(options)}", file=sys.stderr)
        return 130
    return 0


def way_on(options: TrainingOptions) -> str:
    """What to say to whom stops a run."""
    return f"the same command continues from {options.checkpoint}" if options.checkpoint else "nothing was saved"


if __name__ == "__main__":
    sys.exit(main())
