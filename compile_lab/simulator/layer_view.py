"""One layer's matrices to scale, and what each of four devices has of them under the four patterns."""

from collections.abc import Mapping

from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import in_gb, with_unit
from .patterns import Plan, plan
from .sharding import Shape
from .slices import Part, matrices, part_of, places

GAP = 0.25
"""Between two matrices of a picture, in widths of the model."""

CORNERS = {"qkv": (0, 0, 1, 3), "out": (0, 3 + GAP, 1, 1), "up": (1 + GAP, 0, 1, 4), "down": (2 + 2 * GAP, 3, 4, 1)}
"""Each matrix in the picture of a layer, in widths of the model: left, top, wide, high."""

ACROSS, DOWN = 6 + 2 * GAP, 4 + GAP
COLOURS = {
    "parameters": "blue",
    "gradients": "orange",
    "state": "green",
    "activations": "vermillion",
    "buffers": "grey",
}
SENT = "purple"
TITLES = {"ddp": "DDP", "fsdp": "FSDP", "tp": "TP", "pp": "PP"}
SENDS = {"ddp": "gradients", "fsdp": "parameters, gradients", "tp": "activations", "pp": "activations"}


def layer(canvas: Canvas, x: float, y: float, unit: float, colour: str, parts: Mapping[str, Part | None]) -> None:
    """A layer whose model width is `unit` wide: an outline of each matrix, filled where the device has it."""
    for name, (left, top, wide, high) in CORNERS.items():
        at_x, at_y = x + unit * left, y + unit * top
        canvas.box(at_x, at_y, unit * wide, unit * high, "grey", faint=True, title=name)
        if part := parts.get(name):
            fill(canvas, (at_x, at_y, unit * wide, unit * high), part, colour)


def fill(canvas: Canvas, box: tuple[float, float, float, float], part: Part, colour: str, faint: bool = False) -> None:
    """The part of a matrix that is drawn as `box`: left, top, wide, high."""
    x, y, wide, high = box
    across, down = (part.right - part.left) * wide, (part.bottom - part.top) * high
    canvas.box(x + part.left * wide, y + part.top * high, across, down, colour, faint=faint)


def opening(shape: Shape, name: str, devices: int = 4) -> Drawing:
    """What each device has of one layer of the model called `name`, and holds and sends, under four patterns."""
    plans = {pattern: plan(shape, pattern, devices) for pattern in TITLES}
    canvas, unit, high, left, pitch = Canvas(), 17.0, 120, 92, 138
    bars = left + pitch * devices + 20
    longest = max(max(found.total_nbytes, found.sent_nbytes) for found in plans.values())
    scale = (canvas.width - bars) / longest
    for device in range(devices):
        canvas.words(left + pitch * device, 18, f"device {device}")
    canvas.words(bars, 18, "holds, sends in a step")
    for row, (pattern, found) in enumerate(plans.items()):
        y = 34 + high * row
        canvas.words(0, y + 44, TITLES[pattern], bold=True, size=26)
        for device, place in enumerate(places(found.mesh)):
            has_it = place.get("pp", 0) == 0
            parts = {
                each: part_of(matrix, found.mesh, place) if has_it else None for each, matrix in matrices(shape).items()
            }
            layer(canvas, left + pitch * device, y, unit, COLOURS["parameters"], parts)
            if not has_it:
                canvas.words(left + pitch * device + 2.7 * unit, y + 22, "others", size=15)
        _bars(canvas, bars, y, scale, found)
    return Drawing(
        canvas.svg(),
        _in_words(plans),
        f"One of {shape.layers} layers of {name}, its four matrices to scale; blue: what a device has of it. Bytes of "
        f"the fullest and of the busiest device: fp32, AdamW, {next(iter(plans.values())).batch} sequences of "
        f"{shape.context:,} tokens in all. By formula; the chapter holds the formulas, but for "
        "the buffers, against real programs.",
        _table(plans),
        legend=key(COLOURS | {"sent": SENT}),
    )


def _bars(canvas: Canvas, x: float, y: float, scale: float, found: Plan) -> None:
    share, at = found.fullest, x
    for colour, nbytes in zip(COLOURS.values(), [*vars(share.held).values(), share.buffers_nbytes], strict=True):
        canvas.box(at, y, nbytes * scale, 20, colour)
        at += nbytes * scale
    canvas.box(x, y + 58, max(2, found.sent_nbytes * scale), 14, SENT)
    canvas.words(x, y + 48, f"holds {with_unit(share.total_nbytes)}")  # clear of both bars on a phone, too
    canvas.words(x, y + 98, said := f"sends {with_unit(found.sent_nbytes)}")
    canvas.words(x + 8 + 9.6 * len(said), y + 98, SENDS[found.pattern], size=15)


def _in_words(plans: Mapping[str, Plan]) -> str:
    has = {
        "ddp": "every device has the whole layer and sends gradients",
        "fsdp": "each has a quarter of every matrix, by rows, and sends parameters and gradients",
        "tp": "each has a quarter, by rows of the first matrix of a pair and by columns of the second, and sends "
        "activations within the layer",
        "pp": "one device has the whole layer, the others have other layers, and they send activations between layers",
    }
    return ". ".join(
        f"{TITLES[pattern]}: {has[pattern]}; the fullest holds {in_gb(found.total_nbytes)}, "
        f"{in_gb(found.sent_nbytes)} are sent in a step"
        for pattern, found in plans.items()
    )


def _table(plans: Mapping[str, Plan]) -> Table:
    rows = []
    for pattern, found in plans.items():
        kinds = [*vars(found.fullest.held).values(), found.fullest.buffers_nbytes, found.total_nbytes]
        rows.append([TITLES[pattern], *map(with_unit, (*kinds, found.sent_nbytes))])
    return Table(["pattern", *COLOURS, "all", "sent"], rows, align="l" + "r" * 7)
