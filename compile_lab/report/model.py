"""A report on the reader's own model: captured once, told by cards. ``report(model, batch)`` makes it.

Each card is filled by a pure function of what was captured. A card whose part failed says what failed, why and what to
do, in two lines, and the others stand.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..doors import check_amount, check_whole, door
from ..measure.timing import collected_seldom
from ..page.explore import publishing
from ..recordings import here
from ..virtual_gpu.chips import chip as chip_named
from .advice import cure_of
from .capture_cards import breaks_card, guards_card, handed_card
from .captured import PARTS, Captured, PartFailed, ReportOptions, captured, report_parts
from .cards import CardText, PlainCell, ReportCard, worst_first
from .chip_cards import casts_card, kernels_card, whose
from .device_cards import devices_card, wrapped_card
from .given import RULES, GivenModel, given
from .graph_cards import eagerly, joint_card, memory_card, part_of, saved_card, step_card
from .judged_card import TITLE, judged_card
from .limits import LIMIT_S, LONGEST_S
from .model_view import ModelReport
from .parallel import PATTERNS
from .questions import QUESTIONS, answers
from .target import UnusableModel
from .tries import modes_kept
from .whole_step import Kept, attributes_kept
from .wrapping import wrapping

CARDS: dict[str, tuple[str, Callable[[Captured], ReportCard]]] = {
    "step": ("The step as you run it", step_card),
    "handed": ("As you compile it", handed_card),
    "wrapped": ("As you wrap it", wrapped_card),
    "breaks": ("Graph breaks", breaks_card),
    "guards": ("Guards, and what compiles again", guards_card),
    "joint": ("The joint graph", joint_card),
    "saved": ("What is kept for the backward", saved_card),
    "memory": ("Lifetimes and the predicted peak", memory_card),
    "kernels": ("Kernels for a virtual GPU", kernels_card),
    "casts": ("Casts under autocast", casts_card),
    "devices": ("On several devices", devices_card),
    "judged": (TITLE, judged_card),
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
    judge: bool = False,
) -> ModelReport:
    """What becomes of this model's training step, on a page: breaks, guards, graphs, memory, kernels, casts, devices,
    and whether it is right.

    ``model`` is a module, or a function that returns a loss; ``batch`` what it is called with: a dict of keyword
    arguments, a tuple, or a tensor. The loss is its result if that is one number, its ``.loss``, or else the mean of
    its first floating tensor; the report says which. A function may be a whole training step, too, with backwards and
    optimizers of its own: then the step's work and memory are told as eager runs it, and the graphs of the module that
    computes most.

    Nothing needs a GPU: kernels are those for a virtual ``chip``. With ``devices`` also what one of so many holds and
    sends under ``pattern``: data parallel ("ddp", "fsdp"), expert ("ep") or context parallel ("cp"). Each part may take
    ``limit_s`` seconds. Whether the compiled step computes what it should is judged where that takes little beside the
    rest, and with ``judge`` always.

    The model runs eagerly a few times, and in eval mode; parameters, buffers, gradients, attributes, optimizers and
    mode are afterwards what they were.
    Raises UnusableModel (a ValueError), which names the input, the rule and the way out, for what cannot be trained so.

    What is no option is refused before the model runs:

    >>> import torch
    >>> from compile_lab.report import report
    >>> report(torch.nn.Linear(4, 4), torch.ones(2, 4), devices=8, pattern="ring")
    Traceback (most recent call last):
        ...
    ValueError: pattern='ring' is not known; it is one of 'ddp', 'fsdp', 'ep', 'cp'
    """
    options = checked(chip, devices, pattern, limit_s, judge)
    with attributes_kept(model):
        return build_report(given(model, batch, optimizer), options, _bar(options))


def checked(chip: str, devices: int | None, pattern: str, limit_s: float, judge: bool = False) -> ReportOptions:
    """The options of a report. ValueError for one that does not go."""
    chip_named(chip)
    if devices is not None:
        check_whole("devices", devices, 2, MOST_DEVICES)
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r} is not known; it is one of {', '.join(map(repr, PATTERNS))}")
    if devices is None and pattern != ReportOptions.pattern:
        raise ValueError(f"pattern={pattern!r} says how devices share the work, and devices is not there: give both")
    check_amount("limit_s", limit_s)
    if not 0 < limit_s <= LONGEST_S:
        raise ValueError(f"limit_s is {limit_s:g}; give each part some seconds, at most {LONGEST_S:,}")
    return ReportOptions(chip, devices, pattern, limit_s, judge)


def build_report(
    subject: GivenModel, options: ReportOptions, progress: Callable[[str], None] | None = None
) -> ModelReport:
    """Capture, fill the cards, ask the questions."""
    begun = time.perf_counter()
    with state_kept(subject.model), collected_seldom():
        found = captured(subject, options, progress=progress or (lambda _: None))
    seconds = (*found.seconds.items(), ("all", time.perf_counter() - begun))
    findings, unasked = answers(found)
    return ModelReport(
        name=subject.name,
        facts=_facts(found),
        cards=worst_first([card(name, found) for name in cards_of(found)]),
        findings=findings,
        asked=len(QUESTIONS) - len(unasked),
        unasked=unasked,
        provenance=str(here("python -m compile_lab.report", device="cpu")),
        seconds=tuple((name, round(each, 2)) for name, each in seconds),
    )


def cards_of(found: Captured) -> list[str]:
    """The names of the cards that there are for it, in order."""
    left_out = {
        "devices": not found.options.devices,
        "step": not found.given.step,
        "handed": found.parts.get("handed") is None,
        "wrapped": wrapping(found.given) is None,
    }
    return [name for name in CARDS if not left_out.get(name)]


def card(name: str, found: Captured) -> ReportCard:
    """One card; of a part that failed, what failed, why, and what to do."""
    title, fill = CARDS[name]
    try:
        return _as_a_part(fill(found), found)
    except PartFailed as error:
        return _of_a_failed_part(name, title, error, found)
    except Exception as error:  # a card's own mistake must not take the page away; it is told as such
        why = f"This card itself failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        todo = "**What to do:** the fault is the report's, not your model's: the other cards stand without it."
        return ReportCard(name, title, why, "failed", (CardText(todo),))


def _of_a_failed_part(name: str, title: str, error: PartFailed, found: Captured) -> ReportCard:
    """What failed, and torch's own verdict on the step beside it: where that raises, too, it is the finding."""
    part = PARTS[error.part].label
    why, severity = whose(found, error.part, f"{part[0].upper()}{part[1:]} failed: {error.why}")
    todo = cure_of(why) if severity == "bad" else error.todo
    texts = (f"**What to do:** {todo}.", eagerly(found, name))
    return ReportCard(name, title, why, severity, tuple(CardText(each) for each in texts if each))


OFF_THE_GRAPHS = ("joint", "saved", "kernels")
"""The cards whose numbers are of what Dynamo captured, and of nothing else; of a whole step, all but two are."""


OF_ONE_GRAPH = ("breaks", "guards", *OFF_THE_GRAPHS, "memory", "casts", "judged")
"""Those that compile the model as a whole, whatever the reader compiles of it."""


def _as_a_part(made: ReportCard, found: Captured) -> ReportCard:
    """A card whose numbers are of a part of the step says so, and is not called fine."""
    if found.handed and made.name in OF_ONE_GRAPH:
        severity = "look" if made.severity == "good" else made.severity
        made = replace(made, verdict=f"{made.verdict} That is of the model compiled as one.", severity=severity)
    of_all = made.name in ("step", "memory") or not (found.given.step or made.name in OFF_THE_GRAPHS)
    part = "" if of_all else part_of(found)
    if not part:
        return made
    severity = "look" if made.severity == "good" else made.severity
    verdict = f"{made.verdict} That is a part of the step: {part}. {eagerly(found, made.name)}".rstrip()
    return replace(made, verdict=verdict, severity=severity)


@contextlib.contextmanager
def state_kept(model: nn.Module) -> Iterator[None]:
    """After the block, the model's parameters, buffers, gradients and modes, and torch's random numbers, are what they
    were: a forward may write into any of them."""
    with torch.random.fork_rng(devices=[]), modes_kept(model), Kept(model):
        yield


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
    facts += [("frozen parameters", frozen)] if frozen else []
    if lines := len(found.printed.getvalue().splitlines()):
        facts.append(("lines that your code printed while it was tried, left out here", lines))
    return tuple(facts)


def _bar(options: ReportOptions) -> Callable[[str], None]:
    """A progress bar that is told each part as it begins; it stays quiet where nobody looks."""
    from tqdm.auto import tqdm

    form = {"bar_format": "{desc}: {n_fmt}/{total_fmt}, {elapsed}", "leave": False, "disable": publishing()}
    bar = tqdm(total=len(report_parts(options)), **form)

    def progress(label: str) -> None:
        bar.set_description_str(label, refresh=False)
        bar.update()
        if bar.n == bar.total:
            bar.close()

    return progress


__all__ = ["CARDS", "UnusableModel", "build_report", "card", "checked", "report"]
