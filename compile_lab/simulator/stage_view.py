"""The sharding stage as a reader sees it: devices side by side, slices of a layer to scale, arrows, bytes adding up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from ..doors import check_whole
from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import with_unit
from .explored_view import MIXTURES, MODELS
from .holdings import COPIES, GATHERED, GRADIENTS, LOGITS, PASSED
from .meshes import PLANNED
from .sharding import experts_of
from .slices import Part
from .stage import Device, Frame, Move, Played, stage
from .stage_script import MOMENTS

GAP = 0.25
"""Between two matrices of a picture, in widths of the model."""

CORNERS = {"qkv": (0, 0, 1, 3), "out": (0, 3 + GAP, 1, 1), "up": (1 + GAP, 0, 1, 4), "down": (2 + 2 * GAP, 3, 4, 1)}
"""Each matrix in the picture of a layer, in widths of the model: left, top, wide, high."""

ACROSS, DOWN = 6 + 2 * GAP, 4 + GAP
SENT = "purple"

SEQUENCES = 24
"""In a step, on all devices together: pipelines of 2, 4 and 8 stages cut them into equal micro-batches."""

PATTERNS = {
    "FSDP": "fsdp",
    "DDP": "ddp",
    "ZeRO-1": "zero-1",
    "ZeRO-2": "zero-2",
    "FSDP, kept gathered": "fsdp, kept",
    "HSDP": "hsdp",
    "TP": "tp",
    "TP + SP": "tp+sp",
    "PP": "pp",
    "FSDP × TP": "fsdp+tp",
    "PP × FSDP": "pp+fsdp",
    "PP × TP": "pp+tp",
    "PP × FSDP × TP": "3d",
    "CP": "cp",
}
"""Under the names by which they are known."""

WITH_EXPERTS = {"EP": "ep"} | {name: pattern for name, pattern in PATTERNS.items() if "tp" not in PLANNED[pattern]}
"""Those of models with experts."""

NOTICE = {
    "fsdp": "the pale, gathered copy comes and goes twice a step. FSDP holds less than DDP, and sends more bytes.",
    "ddp": "nothing is sent before the backward, and then all gradients are; every device updates everything. "
    "Grey are DDP's buckets, a copy of all gradients, there from the start.",
    "zero-1": "only the green state is sliced, which already removes about half of what DDP holds on every device.",
    "zero-2": "gradients are whole only until they are scattered. It sends as much as DDP, and holds far less.",
    "fsdp, kept": "the pale copy stays from forward to backward. That saves a gather, and costs memory for the model.",
    "hsdp": "two moves follow each other: slices inside a group, and the sum of slices between groups.",
    "tp": "something is sent in the middle of each layer, forward and backward, and all devices wait for it.",
    "tp+sp": "each all-reduce has become a gather before the pair and a scatter after it: as many bytes, less held.",
    "pp": "idle devices say so, and only consecutive stages communicate. The last device has the head, too.",
    "fsdp+tp": "a device gathers only its own slice for tensor parallel, not the whole layer.",
    "pp+fsdp": "from the first backward on a stage keeps its layers gathered, and scatters gradients once.",
    "pp+tp": "sends go from each device to its fellow of the next stage; sums stay within the stage.",
    "3d": "three kinds of moves: along tp in each layer, along shard for each unit, along pp between stages.",
    "cp": "in each layer the keys and values of all positions are gathered; parameters are sliced as by FSDP.",
    "ep": "in each layer the tokens' rows travel to their experts and back; the experts, slices of up and down, stay.",
}

KINDS = {
    "parameters": "blue",
    "gathered": "sky",
    "gradients": "orange",
    "state": "green",
    "activations": "vermillion",
    "buffers": "grey",
}
_OF = {GATHERED: "gathered"} | dict.fromkeys((GRADIENTS, LOGITS, COPIES, PASSED), "buffers")
_LEFT, _BAND, _MOST_MOVES = 150, 50, 2
ENDS_GB = tuple(end * 10**power for power in range(4) for end in (1, 1.5, 2, 3, 4, 5, 6, 8))


def moment(pattern: str, devices: int, moment: int, model: str) -> list[str | Drawing]:
    """One of the 17 moments of a step, from 0 at rest: what each device holds, has sent, and sends now.

    In bf16 with gradients reduced in fp32, AdamW, 24 sequences of the model's whole context on all devices together.
    ``pattern`` is one of `PATTERNS`, or for a model of `MIXTURES` one of `WITH_EXPERTS`. Raises ValueError for a moment
    or a number of devices that is none, and as ``stage.stage``.
    """
    check_whole("moment", moment, 0, MOMENTS - 1)
    check_whole("devices", devices, 2, 8)
    known = PATTERNS | WITH_EXPERTS
    played = _played(model, known[pattern], devices)
    frame, routing = played.frames[moment], played.plan.routing
    mesh = " × ".join(f"{axis} {size}" for axis, size in played.plan.mesh.items()) + (routing and f", {routing}")
    return [
        f"**{frame.phase}.** {frame.says}",
        picture(played, moment, _end(model, devices)),
        f"{pattern} on {mesh}. Notice: {NOTICE[known[pattern]]}",
    ]


@cache
def _played(model: str, pattern: str, devices: int) -> Played:
    return stage((MODELS | MIXTURES)[model], pattern, devices, batch=SEQUENCES)


@cache
def _end(model: str, devices: int) -> float:
    """Where the axis of bytes ends, in GB: one scale for all patterns and moments of a model on so many devices."""
    most = 0
    for pattern in (PATTERNS if model in MODELS else WITH_EXPERTS).values():
        try:
            found = _played(model, pattern, devices)
        except ValueError:
            continue
        most = max(most, found.plan.sent_nbytes, *(d.total_nbytes for frame in found.frames for d in frame.devices))
    return next((end for end in ENDS_GB if 1e9 * end >= most), most / 1e9)


def kinds(device: Device) -> dict[str, int]:
    """What a device holds, by the kinds that the picture tells apart."""
    found = dict.fromkeys(KINDS, 0)
    for kind, nbytes in device.held.items():
        found[_OF.get(kind, kind)] += nbytes
    return found


def picture(played: Played, moment: int, end_gb: float) -> Drawing:
    """All devices in a moment: moves as arrows, what each has of one of its layers, and bytes held and sent so far."""
    frame, canvas = played.frames[moment], Canvas()
    wide = (canvas.width - _LEFT) / len(frame.devices)
    unit = min(20.0, (wide - 12) / ACROSS)
    fine = len(frame.devices) > 4
    for number, device in enumerate(frame.devices):
        x = _LEFT + wide * number
        canvas.words(x, 18, f"{'' if fine else 'device '}{number}", bold=True)
        where = " ".join(f"{axis} {at}" for axis, at in device.place.items() if len(device.place) > 1)
        canvas.words(x, 38, device.doing or where, size=15)
    for row, move in enumerate(frame.moves):
        _arrows(canvas, 44 + _BAND * row, move, wide)
    top = 50 + _BAND * max(_MOST_MOVES, max(len(each.moves) for each in played.frames))
    for row, kind in enumerate(("parameters", "gradients", "state")):
        y = top + (unit * DOWN + 16) * row
        canvas.words(0, y + unit * DOWN / 2 + 6, kind)
        for number, device in enumerate(frame.devices):
            _matrices(canvas, _LEFT + wide * number, y, unit, device.parts, kind)
    _bytes(canvas, top + (unit * DOWN + 16) * 3 + 6, frame, wide, end_gb, fine)
    mixed = experts_of(played.plan.shape)
    shown = f"up and down those of all {mixed.count} experts, smaller" if mixed else "its four matrices to scale"
    return Drawing(
        canvas.svg(),
        in_words(frame),
        f"One layer of each device, {shown}; bars of bytes end at {end_gb:g} GB. bf16, gradients "
        f"reduced in fp32, AdamW, {played.plan.batch} sequences of {played.plan.length:,} tokens in all, rings.",
        _table(frame),
        legend=key(KINDS | {"sent": SENT}),
    )


def _matrices(
    canvas: Canvas, x: float, y: float, unit: float, parts: Mapping[str, Mapping[str, Part]], kind: str
) -> None:
    colour = KINDS[kind]
    for name, (left, top, across, high) in CORNERS.items():
        box = (x + unit * left, y + unit * top, unit * across, unit * high)
        canvas.box(*box, "grey", faint=True, title=f"{name}: {kind}")
        if kind == "parameters" and (copy := parts.get("gathered", {}).get(name)):
            fill(canvas, box, copy, KINDS["gathered"])
        if part := parts.get(kind, {}).get(name):
            fill(canvas, box, part, colour)


def fill(canvas: Canvas, box: tuple[float, float, float, float], part: Part, colour: str) -> None:
    """The part of a matrix that is drawn as `box`: left, top, wide, high."""
    x, y, wide, high = box
    across, down = (part.right - part.left) * wide, (part.bottom - part.top) * high
    canvas.box(x + part.left * wide, y + part.top * high, across, down, colour)


def _arrows(canvas: Canvas, y: float, move: Move, wide: float) -> None:
    """Along a ring each member sends to the next, and the last to the first; of a send, from one to the other.

    Of an all-to-all arrows go both ways: each member has something for each other one.
    """
    canvas.words(0, y + 20, move.kind.replace("_", "-"))
    canvas.words(0, y + 39, with_unit(move.sent_nbytes), size=16)
    middle = min(60.0, wide / 2 - 8)

    def at(device: int) -> float:
        return _LEFT + wide * device + middle

    step = 30 / max(1, len(move.groups) - 1) if len(move.groups) > 1 else 0
    for number, group in enumerate(move.groups):
        level = y + (8 + step * number if move.kind != "send" else 14)
        if move.kind == "send":
            at_y = level + 14 * (group[1] < group[0])
            canvas.line([(at(group[0]), at_y), (at(group[1]), at_y)], SENT, thick=3, arrow=True)
            continue
        for one, other in pairwise(group):
            canvas.line([(at(one), level), (at(other) - 4, level)], SENT, thick=3, arrow=True)
        if move.kind == "all_to_all":
            for one, other in pairwise(reversed(group)):
                canvas.line([(at(one), level + 14), (at(other) + 4, level + 14)], SENT, thick=3, arrow=True)
        elif len(group) > 2:
            first, last, low = at(group[0]), at(group[-1]), level + (14 if not step else min(14, step / 2))
            canvas.line([(last, level), (last, low), (first, low), (first, level + 4)], SENT, thick=1.5, dashed=True)


def _bytes(canvas: Canvas, y: float, frame: Frame, wide: float, end_gb: float, fine: bool) -> None:
    scale = (wide - 16) / (end_gb * 1e9)
    canvas.words(0, y + 18, "holds")
    canvas.words(0, y + 76, "sent so far")
    for number, device in enumerate(frame.devices):
        x = _LEFT + wide * number
        canvas.line([(x, y - 2), (x, y + 92)], thick=1)
        canvas.line([(x + wide - 16, y - 2), (x + wide - 16, y + 92)], thick=1, dashed=True)
        at = x
        for kind, nbytes in kinds(device).items():
            if nbytes * scale >= 0.5:
                canvas.box(at, y, nbytes * scale, 24, KINDS[kind])
            at += nbytes * scale
        canvas.words(x + 4, y + 45, with_unit(device.total_nbytes), size=16 if fine else None)
        canvas.box(x, y + 58, device.sent_nbytes * scale, 14, SENT)
        canvas.words(x + 4, y + 92, with_unit(device.sent_nbytes), size=16 if fine else None)


def in_words(frame: Frame) -> str:
    """What the picture of a moment shows."""
    moves = [
        f"{move.kind.replace('_', '-')} along {move.axis} of {move.what}, {with_unit(move.sent_nbytes)} a device"
        for move in frame.moves
    ]
    held = ", ".join(with_unit(device.total_nbytes) for device in frame.devices)
    sent = ", ".join(with_unit(device.sent_nbytes) for device in frame.devices)
    has = [kind for kind in ("parameters", "gathered", "gradients", "state") if kind in frame.devices[0].parts]
    shares = [
        f"{kind} {sum(p.share for p in frame.devices[0].parts[kind].values()) / len(frame.devices[0].parts[kind]):.0%}"
        for kind in has
    ]
    return (
        f"{frame.phase}. Moving: {'; '.join(moves) or 'nothing'}. Device 0 has of its layer: {', '.join(shares)}. "
        f"The devices hold {held} and have sent {sent}."
    )


def _table(frame: Frame) -> Table:
    rows = [
        [f"device {number}", *map(with_unit, (*kinds(device).values(), device.total_nbytes, device.sent_nbytes))]
        for number, device in enumerate(frame.devices)
    ]
    return Table(["", *KINDS, "all", "sent so far"], rows, align="l" + "r" * 8)
