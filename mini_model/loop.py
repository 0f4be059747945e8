"""The training loop, on one device or many: settings, batches, steps, the judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from .grammar import GRAMMAR
from .inputs import instance, positive, whole
from .model import MiniGPT, check_tokens, config, generate

VALIDATION_TOKENS = 65_536
SAMPLES = 1_000
READ_EVERY = 10  # steps between two readings of the loss
LONGEST_SAMPLE = 64  # tokens; of the grammar's own sentences four in a million are longer


@dataclass(frozen=True)
class Settings:
    """What decides a run's result, and what a run must share with a checkpoint to continue it.

    ValueError, or TypeError, for what no run can have. That the config is there is checked where it is used.

    >>> from mini_model.loop import Settings
    >>> Settings(steps=300)
    Settings(config='mini', steps=300, batch=32, lr=0.008, seed=0)
    >>> Settings(batch=0)
    Traceback (most recent call last):
        ...
    ValueError: Settings.batch is 0; it must be a whole number from 1
    """

    config: str = "mini"
    steps: int = 2400
    batch: int = 32  # windows a step
    lr: float = 8e-3  # the peak of the schedule
    seed: int = 0

    def __post_init__(self) -> None:
        instance("Settings.config", self.config, str)
        whole("Settings.steps", self.steps), whole("Settings.batch", self.batch), whole("Settings.seed", self.seed, 0)
        positive("Settings.lr", self.lr)


@dataclass(frozen=True)
class Report:
    """How close a model comes to the grammar. Losses in nats per token over windows of the model's context."""

    validation_loss: float
    floor: float
    parsed: float  # share of SAMPLES sampled sentences
    example: str

    @property
    def ratio(self) -> float:
        return self.validation_loss / self.floor

    def __str__(self) -> str:
        return (
            f"validation loss   {self.validation_loss:.4f} nats per token\n"
            f"grammar's entropy {self.floor:.4f} nats per token, the floor ({self.ratio:.4f} times it)\n"
            f"sampled sentences {100 * self.parsed:.1f} % of {SAMPLES} parse, for example: {self.example}"
        )


def windows(settings: Settings, n: int, stream: int, step: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs and targets, int64 [n, context] each; stream 0 is for training, 1 for validation.

    >>> from mini_model.loop import Settings, windows
    >>> inputs, targets = windows(Settings(), n=2, stream=0)
    >>> inputs.shape, bool((inputs[:, 1:] == targets[:, :-1]).all())
    (torch.Size([2, 64]), True)
    """
    shape = config(settings.config)
    drawn = torch.from_numpy(GRAMMAR.windows(n, shape.context, seed=[settings.seed, stream, step]))
    check_tokens(drawn, shape)
    return drawn[:, :-1], drawn[:, 1:]


def learning_rate(settings: Settings, step: int) -> float:
    """Warm-up over a tenth of the steps (100 at most), then constant, then linear to zero over the last 40 %.

    ValueError for a step that is none of theirs.

    >>> from mini_model.loop import Settings, learning_rate
    >>> [round(learning_rate(Settings(steps=2400), step), 5) for step in (0, 99, 1000, 1920, 2399)]
    [8e-05, 0.008, 0.008, 0.004, 1e-05]
    """
    whole("step", step, 0, instance("settings", settings, Settings).steps - 1)
    warmup = min(100, max(1, settings.steps // 10))
    return settings.lr * min(1, (step + 1) / warmup, (1 - step / settings.steps) / 0.4)


def run_steps(
    bar: tqdm,
    settings: Settings,
    optimizer: torch.optim.Optimizer,
    step: Callable[[Tensor, Tensor], Tensor],
    save: Callable[[int], None],
    every: int,
    *,
    batch: Callable[[int], tuple[Tensor, Tensor]] | None = None,
    seen: Callable[[int, Tensor], None] | None = None,
) -> None:
    """The loop of training: over the bar's numbers of steps, a batch, its gradients, the optimizer.

    step: from inputs and targets to the loss, and leaves the gradients. save: called with the number of steps done,
    every `every` steps and at the end. batch: from a step's number, from 0, to its inputs and targets; the grammar's
    unless given. seen: called after each step, before it is saved, with the number of steps done and the loss.
    FloatingPointError as in `train`.
    """
    for number in bar:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, number)
        loss = step(*(batch(number) if batch else windows(settings, settings.batch, stream=0, step=number)))
        optimizer.step()

        done = number + 1
        if seen:
            seen(done, loss)
        saves = done % every == 0 or done == settings.steps
        # Reading the loss waits for the device, so not at every step.
        if saves or done % READ_EVERY == 0:
            bar.set_postfix(loss=f"{finite(loss, done):.4f}")
        if saves:
            save(done)


def finite(loss: Tensor, step: int) -> float:
    """The loss after that many steps, in nats. FloatingPointError if it is no number any more."""
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(f"the loss is {value} at step {step}: lower the learning rate. It was not saved")
    return value


@torch.no_grad()
def mean_loss(model: MiniGPT, inputs: Tensor, targets: Tensor, batch: int) -> float:
    """The model's mean loss over windows, int64 [n, length] each, `batch` of them at a time, in nats per token."""
    device = model.head.weight.device
    pairs = zip(inputs.split(batch), targets.split(batch), strict=True)
    return sum(model(x.to(device), y.to(device)).item() * len(x) for x, y in pairs) / len(inputs)


@torch.no_grad()
def judge(model: MiniGPT, settings: Settings) -> Report:
    """Validation loss against the grammar's exact entropy, and the share of sampled sentences that parse.

    Runs the model uncompiled, so that the figures of two modes are comparable.
    """
    n = max(1, VALIDATION_TOKENS // model.config.context)
    loss = mean_loss(model, *windows(settings, n, stream=1), settings.batch)
    sentences = generate(
        model, SAMPLES, GRAMMAR.end, seed=settings.seed, limit=min(LONGEST_SAMPLE, model.config.context)
    )
    # A model with a larger vocabulary can draw ids that are no words of the grammar.
    sentences = [tokens for tokens in sentences if max(tokens) < len(GRAMMAR.vocabulary)]
    parsed = [tokens for tokens in sentences if GRAMMAR.parses(tokens)]
    example = GRAMMAR.words(parsed[len(parsed) // 2]) if parsed else "none"
    return Report(loss, GRAMMAR.window_entropy(model.config.context), len(parsed) / SAMPLES, example)
