"""A report on the reader's own model: captured once, told by cards. ``report(model, batch)`` makes it.

Each card is filled by a pure function of what was captured. A card whose part failed says what failed, why and what to
do, in two lines, and the others stand.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..doors import check_amount, check_whole, door
from ..page.explore import publishing
from ..recordings import here
from ..virtual_gpu.chips import chip as chip_named
from .capture_cards import breaks_card, guards_card
from .captured import LIMIT_S, PARTS, Captured, PartFailed, ReportOptions, asked_parts, captured
from .cards import CardText, ModelReport, PlainCell, ReportCard, worst_first
from .chip_cards import casts_card, devices_card, kernels_card
from .given import RULES, GivenModel, UnusableModel, given
from .graph_cards import joint_card, memory_card, saved_card
from .questions import QUESTIONS, answers
from .tries import PATTERNS

CARDS: dict[str, tuple[str, Callable[[Captured], ReportCard]]] = {
    "breaks": ("Graph breaks", breaks_card),
    "guards": ("Guards, and what compiles again", guards_card),
    "joint": ("The joint graph", joint_card),
    "saved": ("What is kept for the backward", saved_card),
    "memory": ("Lifetimes and the predicted peak", memory_card),
    "kernels": ("Kernels for a virtual GPU", kernels_card),
    "casts": ("Casts under autocast", casts_card),
    "devices": ("On several devices", devices_card),
}
MOST_DEVICES = 1024


@door
def report(
    model: Any,
    batch: Any,
    *,
    optimizer: Any = None,
    chip: str = "H200",
    devices: int | None = None,
    pattern: str = "fsdp",
    limit_s: float = LIMIT_S,
) -> ModelReport:
    """What becomes of this model's training step, on a page: breaks, guards, graphs, memory, kernels, casts, devices.

    ``model`` is a module, ``batch`` what it is called with: a dict of keyword arguments, a tuple, or a tensor. The loss
    is its result if that is one number, its ``.loss``, or else the mean of its first floating tensor; the report says
    which. Nothing needs a GPU: kernels are those for a virtual ``chip``. With ``devices`` also what one of so many
    holds and sends under ``pattern``, "ddp" or "fsdp". Each part may take ``limit_s`` seconds.

    The model runs eagerly a few times, and in eval mode; its mode, buffers and gradients are afterwards what they were.
    Raises UnusableModel (a ValueError), which names the input, the rule and the way out, for what cannot be trained so.
    """
    options = checked(chip, devices, pattern, limit_s)
    return told(given(model, batch, optimizer), options, _bar(options))


def checked(chip: str, devices: int | None, pattern: str, limit_s: float) -> ReportOptions:
    """The options of a report. ValueError for one that does not go."""
    chip_named(chip)
    if devices is not None:
        check_whole("devices", devices, 2, MOST_DEVICES)
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r} is not known; it is one of {', '.join(map(repr, PATTERNS))}")
    check_amount("limit_s", limit_s)
    if not limit_s:
        raise ValueError("limit_s is 0; give each part some seconds")
    return ReportOptions(chip, devices, pattern, limit_s)


def told(subject: GivenModel, options: ReportOptions, progress: Callable[[str], None] | None = None) -> ModelReport:
    """Capture, fill the cards, ask the questions."""
    begun = time.perf_counter()
    with state_kept(subject.model):
        found = captured(subject, options, progress=progress or (lambda _: None))
    seconds = (*found.seconds.items(), ("all", time.perf_counter() - begun))
    findings, unasked = answers(found)
    return ModelReport(
        name=subject.name,
        facts=_facts(found),
        cards=worst_first([card(name, found) for name in CARDS if name != "devices" or options.devices]),
        findings=findings,
        asked=len(QUESTIONS) - len(unasked),
        unasked=unasked,
        provenance=str(here("python -m compile_lab.report", device="cpu")),
        seconds=tuple((name, round(each, 2)) for name, each in seconds),
    )


def card(name: str, found: Captured) -> ReportCard:
    """One card; of a part that failed, what failed, why, and what to do."""
    title, fill = CARDS[name]
    try:
        return fill(found)
    except PartFailed as error:
        part = PARTS[error.part].told
        why = f"{part[0].upper()}{part[1:]} failed: {error.why}"
        return ReportCard(name, title, why, "failed", (CardText(f"**What to do:** {error.todo}."),))
    except Exception as error:  # a card's own mistake must not take the page away; it is told as such
        why = f"This card itself failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        todo = "**What to do:** the fault is the report's, not your model's: the other cards stand without it."
        return ReportCard(name, title, why, "failed", (CardText(todo),))


@contextlib.contextmanager
def state_kept(model: nn.Module) -> Iterator[None]:
    """After the block, the model's buffers, gradients and modes, and torch's random numbers, are what they were."""
    buffers = {each: each.detach().clone() for each in model.buffers()}
    gradients = {each: each.grad for each in model.parameters()}
    modes = {each: each.training for each in model.modules()}
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in buffers.items():
                    buffer.copy_(before)
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            for module, training in modes.items():
                module.training = training


def _facts(found: Captured) -> tuple[tuple[str, PlainCell], ...]:
    subject = found.given
    parameters = list(subject.model.parameters())
    frozen = sum(each.numel() for each in parameters if not each.requires_grad)
    facts: list[tuple[str, PlainCell]] = [
        ("parameters", sum(each.numel() for each in parameters)),
        ("called with", subject.batch),
        ("loss", RULES[subject.rule]),
        ("chip", f"virtual {found.options.chip}"),
    ]
    return (*facts, ("frozen parameters", frozen)) if frozen else tuple(facts)


def _bar(options: ReportOptions) -> Callable[[str], None]:
    """A progress bar that is told each part as it begins; it stays quiet where nobody looks."""
    from tqdm.auto import tqdm

    form = {"bar_format": "{desc}: {n_fmt}/{total_fmt}, {elapsed}", "leave": False, "disable": publishing()}
    bar = tqdm(total=len(asked_parts(options)), **form)

    def progress(told: str) -> None:
        bar.set_description_str(told, refresh=False)
        bar.update()
        if bar.n == bar.total:
            bar.close()

    return progress


__all__ = ["CARDS", "UnusableModel", "card", "checked", "report", "told"]
