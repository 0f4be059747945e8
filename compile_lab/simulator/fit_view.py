"""Will it fit, how fast? As a reader sees it: memory by kind beside the card, a step's time, and what decides."""

from __future__ import annotations

from dataclasses import replace

from ..doors import check_whole
from ..page.axes import Range
from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import in_gb, significant, with_unit
from .explored_view import MODELS as SOME
from .explored_view import ModelShape
from .fit import BEST, CHIPS, Assumed, Fit, fit
from .layer_view import COLOURS
from .recommendation import USABLE
from .sharding import parameter_count

MODELS = {
    "7 B": SOME["7 B"],
    "124 M": SOME["124 M"],
    "1.3 B": SOME["1.3 B"],
    "13 B": ModelShape(50257, 2048, dim=5120, layers=40, heads=40),
    "70 B": SOME["70 B"],
    "405 B": ModelShape(128256, 8192, dim=16384, layers=126, heads=128),
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

LEFT, LONG = 12.0, 930.0
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
    check_whole("sequences", sequences), check_whole("devices", devices)
    if model == OWN:
        if width % heads:
            raise ValueError(f"width={width} is not divided by heads={heads}: heads are equally wide; change one")
        shape = ModelShape(vocabulary, context, dim=width, layers=layers, heads=heads)
    else:
        shape = replace(MODELS[model], context=context)
    given = {"batch": devices * sequences, "precision": precision, "assumed": Assumed(matrix=of_the_peak / 100)}
    on = checkpointing == "on"
    found = fit(shape, PATTERNS[pattern], devices, chip, checkpointing=on, **given)
    other = fit(shape, found.plan.pattern, devices, chip, checkpointing=not on, **given)
    return [
        _said(found, chip, PATTERNS[pattern] == BEST and devices > 1),
        memory(found, chip),
        pace(found),
        _decides(found, other),
    ]


def _said(found: Fit, chip: str, chosen: bool) -> str:
    mesh = " × ".join(f"{axis} {size}" for axis, size in found.plan.mesh.items())
    how = ", the fastest that fits" if found.fits else ", which holds least"
    verdict = "It fits" if found.fits else "It does not fit"
    return (
        f"**{verdict}: {with_unit(found.plan.total_nbytes)} a device, of the {found.chip.memory_gb:g} GB of the card "
        f"({chip}).** {_count(parameter_count(found.plan.shape))} parameters, {found.plan.pattern}"
        f"{f' ({mesh})' if mesh else ''}{how if chosen else ''}. A step of "
        f"{found.plan.batch * found.plan.length:,} tokens would take **{seconds(found.step_s)}**: "
        f"MFU **{found.mfu:.0%}**, **{_count(found.tokens_per_s)} tokens a second**, "
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
    """Bytes by kind on one scale for all choices, the card's memory, and what of it can be used."""
    canvas, scale = Canvas(), LONG / END_GB
    kinds = dict(zip(COLOURS, [*vars(found.share.held).values(), found.share.buffers_nbytes], strict=True))
    at = LEFT
    for kind, nbytes in kinds.items():
        wide = min(LEFT + LONG - at, nbytes / 1e9 * scale)
        if wide >= 0.5:
            canvas.box(at, 34, wide, 40, COLOURS[kind], title=f"{kind} {with_unit(nbytes)}")
        at += max(0, wide)
    total = found.plan.total_nbytes / 1e9
    if total > END_GB:
        canvas.line([(LEFT + LONG + 4, 54), (LEFT + LONG + 40, 54)], thick=4, arrow=True)
    card, usable = (LEFT + share * found.chip.memory_gb * scale for share in (1, USABLE))
    canvas.line([(card, 24), (card, 84)], thick=5)
    canvas.line([(usable, 28), (usable, 84)], dashed=True)
    canvas.words(card, 16, chip, anchor="end" if card > 500 else "start", bold=True)
    canvas.axis(LEFT, 92, LONG, [(gb / END_GB, f"{gb}") for gb in range(0, END_GB, 40)] + [(1, f"{END_GB} GB")])
    held = ", ".join(f"{kind} {with_unit(nbytes)}" for kind, nbytes in kinds.items() if nbytes)
    legend = key({f"{kind} {with_unit(nbytes)}": COLOURS[kind] for kind, nbytes in kinds.items()})
    return Drawing(
        canvas.svg(),
        f"A bar of {in_gb(found.plan.total_nbytes)} next to a mark at {found.chip.memory_gb:g} GB, of which a tenth is "
        f"left free: {held}",
        f"The fullest device. Thick: the card; dashed: {USABLE:.0%} of it, the rest is for what a plan does not count.",
        legend=legend,
    )


def pace(found: Fit) -> Drawing:
    """The step: what is computed, what is waited for, on an axis whose end is a round number."""
    choice, canvas = found.choice, Canvas()
    parts = dict(zip(TIMES, (choice.compute_ms, choice.exposed_ms, choice.bubble_ms, choice.update_ms), strict=True))
    end = next(e * 10.0**p for p in range(-2, 12) for e in (1, 2, 5) if e * 10.0**p >= choice.step_ms)
    at = LEFT
    for name, milliseconds in parts.items():
        wide = milliseconds / end * LONG
        if wide >= 0.5:
            canvas.box(at, 4, wide, 30, TIMES[name], title=f"{name} {seconds(milliseconds / 1e3)}")
        at += wide
    ticks = [(share, seconds(share * end / 1e3) if share else "0") for share in (0, 0.25, 0.5, 0.75, 1)]
    canvas.axis(LEFT, 42, LONG, ticks)
    assumed, chip = found.assumed, found.chip
    said = {name: f"{name} {seconds(value / 1e3)}" for name, value in parts.items()}
    return Drawing(
        canvas.svg(),
        f"A step of {seconds(found.step_s)}: {', '.join(said.values())}",
        f"Assumed: {assumed.matrix:.0%} of {chip.tflop_per_s[found.plan.precision]:g} TFLOP/s, {assumed.inside:.0%} of "
        f"{chip.inside_gb_per_s:g} GB/s a device in a machine of eight, {assumed.across:.0%} of eight cards of "
        f"{chip.across_gb_per_s:g} GB/s out of it (data sheets). Gradients and parameters travel during "
        "computation, which they slow; "
        "the rest is waited for.",
        Table(["part of a step", "takes"], [[name, seconds(value / 1e3)] for name, value in parts.items()]),
        legend=key({said[name]: TIMES[name] for name in TIMES}),
    )


def _decides(found: Fit, other: Fit) -> str:
    """What the memory hangs on, and what the time."""
    kinds = dict(zip(COLOURS, [*vars(found.share.held).values(), found.share.buffers_nbytes], strict=True))
    most = max(kinds, key=kinds.__getitem__)
    turned = "without" if found.plan.checkpointing else "with"
    halved = found.deciding
    return (
        f"**What decides.** Memory: {most}, {kinds[most] / found.plan.total_nbytes:.0%} of it; {turned} checkpointing "
        f"a device would hold {with_unit(other.plan.total_nbytes)}, and a step take {seconds(other.step_s)}. "
        f"Time: {_SHARES[halved]} that is assumed; at half of it a step takes {found.slower[halved]:.2g} times as long"
        + "".join(
            f", at half of {_SHARES[name].removeprefix('the share of ')} {times:.2g} times"
            for name, times in found.slower.items()
            if name != halved and times > 1.005
        )
        + "."
    )
