"""What a reader explores at any value: panels that the book's pages compute, too, from plain arguments.

A panel here is a function of texts and numbers, as an explorer's controls give them. It raises ValueError, as the
instruments do, for what they refuse: the explorer shows the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..doors import check_amount, check_whole
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import percent
from . import overlap_view, patterns_view, pipeline_view
from .overlap import Overlap
from .pipeline import SCHEDULES, Timeline, check_pairs, simulate
from .recommendation import recommend
from .sharding import parameters
from .wire import MB, Gradient, ddp_overlap


@dataclass(frozen=True)
class ModelShape:
    """A GPT's sizes: what ``sharding.Shape`` asks for."""

    vocabulary: int
    context: int
    dim: int
    layers: int
    heads: int
    tied_head: bool = False
    experts: int = 0
    choices: int = 2
    expert_width: int = 0


MODELS = {
    "7 B": ModelShape(50257, 2048, dim=4096, layers=32, heads=32),
    "124 M": ModelShape(50257, 1024, dim=768, layers=12, heads=12, tied_head=True),
    "1.3 B": ModelShape(50257, 1024, dim=2048, layers=24, heads=16),
    "70 B": ModelShape(50257, 2048, dim=8192, layers=80, heads=64),
}
"""GPTs in plain torch, by their number of parameters."""

MIXTURES = {
    "OLMoE 7 B": ModelShape(50304, 4096, 2048, 16, heads=16, experts=64, choices=8, expert_width=1536),
    "Mixtral 47 B": ModelShape(32000, 32768, 4096, 32, heads=32, experts=8, choices=2, expert_width=21504),
}
"""The same with experts, in the sizes of the configurations of allenai/OLMoE-1B-7B-0924 (Muennighoff et al., 2024) and
mistralai/Mixtral-8x7B-v0.1 (Jiang et al., 2024). Their experts have three matrices, 1,024 and 14,336 wide; here they
have two, half as wide again: as many parameters and FLOPs. Mixtral shares its keys and values among four heads each,
which is not done here, and makes 0.8 billion parameters more."""

CAPS_MB = (1, 25, 100, 1000)
"""Sizes of buckets that a reader's own is compared with; the last is one bucket for everything."""

AXES = tuple(end * 2**doubled for doubled in range(20) for end in (36, 54))
"""Where an axis of time may end, in forwards: few places, so that one scale serves many choices."""

TIMES_MS = tuple(end * 10.0**power for power in range(-3, 12) for end in (1, 1.5, 2, 3, 4, 6, 8))
"""The same in milliseconds."""

MOST_BARS, MOST_RANKS = 20_000, 32
"""Of one picture. More of them nobody can tell apart, and drawing them takes longer than simulating."""


def pipeline(
    schedule: str,
    compared_with: str,
    ranks: int,
    micro_batches: int,
    backward: float,
    transfer: float,
    last_stage_longer_by: float,
) -> list[str | Drawing | Table]:
    """Two schedules on one axis of time, and what each costs: how long ranks wait, what they hold, what they send.

    The unit of time, F, is the forward of all of a rank's layers for one micro-batch, however many stages they make.
    ``backward`` is the whole one; half of it goes for the gradient of the input. The last stage, which has a language
    model's head, takes ``last_stage_longer_by`` more for its forward, and as many times more for its backward.
    """
    check_whole("ranks", ranks)
    check_whole("micro_batches", micro_batches)
    check_amount("backward", backward)
    check_amount("last_stage_longer_by", last_stage_longer_by)
    several = {}
    for name in dict.fromkeys((schedule, compared_with)):
        on_each = SCHEDULES[name]
        stages = ranks * on_each
        check_pairs(stages, micro_batches)
        parts = [1 / on_each] * (stages - 1) + [1 / on_each + last_stage_longer_by]
        halves = [backward / 2 * part for part in parts]
        several[name] = simulate(
            name, stages, micro_batches, forward=parts, input_grad=halves, weight_grad=halves, transfer=transfer
        )
    return [_noticed(list(several.values())), *_picture(several), pipeline_view.compared(several)]


def _picture(several: dict[str, Timeline]) -> list[str | Drawing]:
    bars = sum(len(each.actions) for each in several.values())
    ranks = max(each.ranks for each in several.values())
    if bars > MOST_BARS or ranks > MOST_RANKS:
        return [f"{bars:,} actions on {ranks} ranks are more than can be seen in a picture. The numbers are exact:"]
    longest = max(each.span for each in several.values())
    until = next((end for end in AXES if end >= longest), longest)
    return [pipeline_view.bubbles(several, unit="F", until=until, table=False)]


def _noticed(timelines: list[Timeline]) -> str:
    """What the chosen schedule, the first, takes; and the other one next to it, in time and in memory."""
    chosen, *others = timelines
    takes = f"takes as long as {chosen.span:.4g} forwards of a micro-batch (F)"
    said = f"**{chosen.schedule}** {takes}, and its ranks wait {percent(chosen.bubble_fraction, 1)} of that"
    held, *held_by_others = (max(each.held_microbatches) for each in timelines)
    if not others:
        return f"{said}; a rank holds up to {held:g} micro-batches."
    (other,), (there,) = others, held_by_others
    more = other.span / chosen.span - 1
    takes = f"takes {percent(abs(more), 1)} {'longer' if more > 0 else 'less'}" if abs(more) > 5e-4 else "takes as long"
    holds = f"{there:g} instead of {held:g} micro-batches" if there != held else f"as many micro-batches, {held:g}"
    return f"{said}. {other.schedule} {takes}; its fullest rank holds {holds}."


def recommended(model: str, devices: int, sequences: int, card: float) -> list[str | Table]:
    """Which patterns fit on so many cards of ``card`` GB, the shortest estimated step first.

    In bf16 with gradients reduced in float32, AdamW, all activations kept, ``sequences`` of the model's whole context a
    device. Raises ValueError as ``recommend``.
    """
    check_whole("devices", devices)
    check_whole("sequences", sequences)
    _check_card(card)
    return patterns_view.ranking(recommend(MODELS[model], devices, card * 1e9, batch=devices * sequences))


def _check_card(card: float) -> None:
    if not card > 0:
        raise ValueError(f"card={card}: a card's memory in GB is more than 0")


def buckets(bucket: float, wire: float, devices: int, backward: float, latency: float) -> list[str | Drawing]:
    """A step of GPT-2 124M under DDP: how much of its communication hides, with ``bucket`` in MB and ``wire`` in GB/s.

    A ring sends 2 · (n − 1) / n of the bytes and takes ``latency`` ms to start. The forward takes half of the
    ``backward``, in ms, of which each gradient takes a share as large as its matmul. Raises ValueError as
    ``ddp_overlap``.
    """
    check_whole("devices", devices)
    if devices < 2 or not wire > 0:
        raise ValueError(f"devices={devices}, wire={wire}: something is sent between at least 2, at more than 0 GB/s")
    caps = dict.fromkeys((bucket, *CAPS_MB))
    steps = {cap: _ddp_step(cap, wire, devices, backward, latency) for cap in caps}
    best = min(CAPS_MB, key=lambda cap: steps[cap].span_ms)
    found, name = steps[bucket], f"{best:g} MB" if best < CAPS_MB[-1] else "one bucket"
    count = len(found.intervals)
    said = (
        f"A step takes **{found.span_ms:.1f} ms**, of which {found.exposed_ms:.1f} ms are exposed: "
        f"{100 * found.fraction:.0f} % of the communication is hidden, in {count} collective{'s' * (count != 1)}. "
        f"The best of 1, 25 and 100 MB and one bucket for this wire: {name}, {steps[best].span_ms:.1f} ms."
    )
    shown = {f"{bucket:g} MB": found} | ({"one bucket": steps[CAPS_MB[-1]]} if bucket < CAPS_MB[-1] else {})
    until_ms = next((end for end in TIMES_MS if end >= max(each.span_ms for each in shown.values())), None)
    return [
        said,
        overlap_view.timeline(shown, "GPT-2 124M, on paper: forward, backward, all-reduce", until_ms=until_ms),
    ]


def _ddp_step(cap_mb: float, wire_gb_s: float, devices: int, backward_ms: float, latency_ms: float) -> Overlap:
    shape = MODELS["124 M"]
    parts = parameters(shape)
    block = [each for each in parts if each.part == "block"]
    first, last = ([each for each in parts if each.part == part] for part in ("first", "last"))
    in_order = [*first, *block * shape.layers, *last]
    head, *others = [4 * each.numbers() for each in in_order]  # the tied embedding: its matmul is the backward's first
    whole, made, gradients = head + sum(others), head, []
    for size in reversed(others):
        made += size
        gradients.append(Gradient(backward_ms * made / whole, size))
    gradients.append(Gradient(backward_ms, head))
    bytes_per_ms = wire_gb_s * 1e9 / 1e3 / (2 * (devices - 1) / devices)
    return ddp_overlap(
        gradients,
        backward_ms,
        cap_nbytes=cap_mb * MB,
        latency_ms=latency_ms,
        forward_ms=backward_ms / 2,
        bytes_per_ms=bytes_per_ms,
    )
