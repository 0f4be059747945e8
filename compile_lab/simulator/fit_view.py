"""Will it fit, how fast? As a reader sees it: memory by kind beside the card, a step's time, and what decides."""

from __future__ import annotations

import functools
from dataclasses import replace

from ..doors import check_whole
from ..page.axes import Range
from ..page.figures import Drawing
from ..page.marks import Axis, Row, Segment, segments
from ..page.units import percent, significant, with_unit
from .explored_view import MIXTURES, ModelShape
from .explored_view import MODELS as SOME
from .fit import BEST, CHIPS, Assumed, Fit, fit
from .patterns_view import KINDS, kinds
from .recommendation import USABLE
from .sharding import parameter_count

MODELS = {
    "7 B": SOME["7 B"],
    "124 M": SOME["124 M"],
    "1.3 B": SOME["1.3 B"],
    "13 B": ModelShape(50257, 2048, dim=5120, layers=40, heads=40),
    "70 B": SOME["70 B"],
    "405 B": ModelShape(128256, 8192, dim=16384, layers=126, heads=128),
    **MIXTURES,
}
OWN = "my own sizes"
PATTERNS = {
    "best that fits": BEST,
    "DDP": "ddp",
    "ZeRO-1": "zero-1",
    "ZeRO-2": "zero-2",
    "FSDP": "fsdp",
    "HSDP": "hsdp",
    "TP": "tp",
    "TP + SP": "tp+sp",
    "PP": "pp",
    "FSDP × TP": "fsdp+tp",
    "PP × FSDP": "pp+fsdp",
    "PP × FSDP × TP": "3d",
    "EP": "ep",
}
END_GB = 200
"""Of the axis of memory, for all choices."""

AXES = {
    "model": (*MODELS, OWN),
    "pattern": tuple(PATTERNS),
    "chip": ("H100", *(name for name in CHIPS if name != "H100")),
    "devices": Range(1, 1024, start=8, log=True),
    "sequences": Range(1, 64, start=1),
    "context": Range(512, 32768, start=2048, step=512, log=True),
    "checkpointing": ("off", "on"),
    "precision": ("bf16", "fp32"),
    "of_the_peak": Range(5, 80, start=40, unit="%"),
    "layers": Range(1, 128, start=32, where=("model", OWN), log=True),
    "width": Range(256, 16384, start=4096, step=256, where=("model", OWN), log=True),
    "heads": Range(1, 128, start=32, where=("model", OWN), log=True),
    "vocabulary": Range(1024, 262144, start=50304, step=256, where=("model", OWN), log=True),
}

TIMES = {"computes": "blue", "messages: waited for, or slowing": "purple", "bubble": "grey", "optimizer": "green"}
_SHARES = {
    "matrix": "the share of the matrix rate",
    "inside": "the share of NVLink",
    "across": "the share of the network between machines",
}


def fits(
    model: str,
    layers: int,
    width: int,
    heads: int,
    vocabulary: int,
    pattern: str,
    devices: int,
    sequences: int,
    context: int,
    checkpointing: str,
    precision: str,
    chip: str,
    of_the_peak: float,
) -> list[str | Drawing]:
    """What a device of so many holds beside its card, how long a step takes, and on what the answer hangs.

    ``sequences`` are those of one device, ``context`` their tokens, ``of_the_peak`` the share of the matrix rate that
    matmuls reach, in %. Sizes are looked at for a model of one's own only. Raises ValueError as ``fit``.
    """
    sizes = {"layers": layers, "width": width, "heads": heads, "vocabulary": vocabulary, "context": context}
    for name, value in sizes.items():
        check_whole(name, value)
    check_whole("sequences", sequences)
    check_whole("devices", devices)
    if model == OWN:
        if width % heads:
            raise ValueError(f"width={width} is not divided by heads={heads}: heads are equally wide; change one")
        shape = ModelShape(vocabulary, context, dim=width, layers=layers, heads=heads)
    else:
        shape = replace(MODELS[model], context=context)
    assumed = Assumed(matrix=of_the_peak / 100)
    fitted = functools.partial(fit, batch=devices * sequences, precision=precision, assumed=assumed)
    on = checkpointing == "on"
    found = fitted(shape, PATTERNS[pattern], devices, chip, checkpointing=on)
    other = fitted(shape, found.plan.pattern, devices, chip, checkpointing=not on)
    return [
        _summary(found, chip, PATTERNS[pattern] == BEST and devices > 1),
        memory(found, chip),
        pace(found),
        _decides(found, other),
    ]


def _summary(found: Fit, chip: str, chosen: bool) -> str:
    mesh = " × ".join(f"{axis} {size}" for axis, size in found.plan.mesh.items())
    how = ", the fastest that fits" if found.fits else ", which holds least"
    verdict = "It fits" if found.fits else "It does not fit"
    total, active = (parameter_count(found.plan.shape, active) for active in (False, True))
    parts = f"{_count(total)} parameters" + (f", {_count(active)} of them active" if active < total else "")
    notes = ", ".join(filter(None, (mesh, found.plan.routing)))
    return (
        f"**{verdict}: at the peak {with_unit(found.plan.peak_nbytes)} a device, of the {found.chip.memory_gb:g} GB of "
        f"the card ({chip}).** {parts}, {found.plan.pattern}"
        f"{f' ({notes})' if notes else ''}{how if chosen else ''}. A step of "
        f"{found.plan.batch * found.plan.length:,} tokens would take **{seconds(found.step_s)}**: "
        f"MFU **{percent(found.mfu)}**, **{_count(found.tokens_per_s)} tokens a second**, "
        f"{_count(found.tokens_per_s / found.plan.devices)} on each device."
    )


def seconds(value: float) -> str:
    """A time in a unit that reads well, to three figures."""
    return f"{significant(value)} s" if value >= 1 else f"{significant(1e3 * value)} ms"


def _count(value: float) -> str:
    if value >= 999.5e6:
        return f"{value / 1e9:.3g} billion"
    return f"{value / 1e6:.3g} million" if value >= 999_500 else significant(value)


def memory(found: Fit, chip: str) -> Drawing:
    """Bytes by kind, the card's memory, and what of it can be used: on one scale for all that is not far too large."""
    total, peak, card = found.plan.total_nbytes, found.plan.peak_nbytes, found.chip.memory_gb
    parts = [
        Segment(kind, nbytes / 1e9, title=f"{kind} {with_unit(nbytes)}") for kind, nbytes in kinds(found.plan).items()
    ]
    return segments(
        [Row("holds", parts, with_unit(total))],
        Axis(unit="GB", until=END_GB if total / 1e9 <= END_GB else None),
        title=f"At its peak a device holds {with_unit(peak)}; a plan can use {USABLE * card:.0f} GB of the card.",
        caption=f"In a step it holds {with_unit(total)} of these kinds, but not all at one time. The rest of the card "
        "is for what a plan does not count.",
        colours=KINDS,
        references={
            "peak": (peak / 1e9, "ink"),
            percent(USABLE): (USABLE * card, "grey"),
            f"{chip}, {card:g} GB": (card, "purple"),
        },
    )


def pace(found: Fit) -> Drawing:
    """The step: what is computed, what is waited for."""
    choice, assumed, chip = found.choice, found.assumed, found.chip
    parts = dict(zip(TIMES, (choice.compute_ms, choice.exposed_ms, choice.bubble_ms, choice.update_ms), strict=True))
    size, unit = (1e3, "s") if choice.step_ms >= 1e3 else (1, "ms")
    return segments(
        [
            Row(
                "a step",
                [Segment(name, each / size, title=f"{name} {seconds(each / 1e3)}") for name, each in parts.items()],
            )
        ],
        Axis(unit=unit),
        title=f"A step takes {seconds(found.step_s)}, {percent(choice.compute_ms / choice.step_ms)} of it computation.",
        caption=f"Assumed: {percent(assumed.matrix)} of {chip.tflop_per_s[found.plan.precision]:g} TFLOP/s, "
        f"{percent(assumed.inside)} of {chip.inside_gb_per_s:g} GB/s a device in a machine of eight, "
        f"{percent(assumed.across)} of eight cards of {chip.across_gb_per_s:g} GB/s out of it (data sheets). "
        "Gradients and parameters travel during computation, which they slow; the rest is waited for.",
        colours=TIMES,
    )


def _decides(found: Fit, other: Fit) -> str:
    """What the memory hangs on, and what the time."""
    held = kinds(found.plan)
    most = max(held, key=held.__getitem__)
    turned = "without" if found.plan.checkpointing else "with"
    halved = found.deciding
    return (
        f"**What decides.** Memory: {most}, {percent(held[most] / found.plan.total_nbytes)} of what is held; {turned} "
        f"checkpointing the peak is {with_unit(other.plan.peak_nbytes)}, and a step takes {seconds(other.step_s)}. "
        f"Time: {_SHARES[halved]} that is assumed; at half of it a step takes {found.slower[halved]:.2g} times as long"
        + "".join(
            f", at half of {_SHARES[name].removeprefix('the share of ')} {times:.2g} times"
            for name, times in found.slower.items()
            if name != halved and times > 1.005
        )
        + "."
    )
