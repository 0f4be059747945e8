"""Sharding patterns as a reader sees them: what is split, what is held, what is sent, what fits."""

from collections.abc import Iterator, Mapping, Sequence

from ..page.canvas import Canvas, key
from ..page.figures import PALETTE, Drawing, Figure, Series, lines
from ..page.tables import Table
from ..page.units import significant, unit_of, with_unit
from .collectives import Collective
from .meshes import MACHINE, PATTERNS, mesh_of
from .patterns import Plan
from .recommendation import Network, Recommendation, axis_s, compute_s
from .sharding import Parameter, Shape, parameters

_DEVICES = [PALETTE[name] for name in ("blue", "orange", "green", "vermillion")]
_LABELS, _COLUMN, _CELL, _ROW, _HEAD = 360, 172, 150, 30, 34  # room for labels of a phone's size
_KINDS = {
    "parameters": PALETTE["blue"],
    "gradients": PALETTE["orange"],
    "state": PALETTE["green"],
    "activations": PALETTE["vermillion"],
    "buffers": PALETTE["grey"],
}
_SENT = PALETTE["purple"]
_TICKS = (0, 0.25, 0.5, 0.75, 1)


def shards(shape: Shape, patterns: Sequence[str] = ("ddp", "fsdp", "tp", "pp"), devices: int = 4) -> Drawing:
    """Every parameter as each pattern splits it, identical layers folded: each device's slice has its colour.

    Raises ValueError for more than four devices, and as ``patterns.plan`` for what does not divide.
    """
    if not 2 <= devices <= len(_DEVICES):
        raise ValueError(f"devices={devices}: the picture has a colour for each of 2 to {len(_DEVICES)}")
    for pattern in patterns:
        mesh_of(shape, pattern, devices)
    rows = parameters(shape)
    height = _HEAD + _ROW * len(rows)
    parts = [
        f"<text x='{_LABELS + _COLUMN * column}' y='20' font-weight='600'>{pattern}</text>"
        for column, pattern in enumerate(patterns)
    ]
    for row, parameter in enumerate(rows):
        top = _HEAD + _ROW * row
        parts.append(f"<text x='0' y='{top + 17}'>{parameter.name.replace('blocks.', '')}</text>")
        for column, pattern in enumerate(patterns):
            parts += _cell(parameter, PATTERNS[pattern][0], devices, _LABELS + _COLUMN * column, top)
    width = _LABELS + _COLUMN * len(patterns)
    svg = (
        f"<svg viewBox='0 0 {width} {height}' font-size='16' fill='currentColor' "
        f"xmlns='http://www.w3.org/2000/svg'>{''.join(parts)}</svg>"
    )
    legend = " ".join(
        f"<span style='color:{colour}'>■</span> device {device}" for device, colour in enumerate(_DEVICES[:devices])
    )
    legend += f" <span style='color:{PALETTE['grey']}'>■</span> whole on each device"
    caption = f"What each of {devices} devices holds of every parameter; * stands for each of the blocks."
    return Drawing(svg, _split_in_words(rows, patterns), caption, _split_table(rows, patterns, devices), None, legend)


def _cell(each: Parameter, axis: str, devices: int, left: float, top: float) -> Iterator[str]:
    high = 22 if len(each.shape) > 1 else 9
    top += (22 - high) / 2
    if axis == "pp":
        here = range(devices) if each.part == "block" else [0 if each.part == "first" else devices - 1]
        wide = _CELL / devices
        yield from (_box(left + wide * device, top, wide - 6, high, _DEVICES[device]) for device in here)
    elif axis == "shard" and len(each.shape) > 1:
        low = high / devices
        yield from (_box(left, top + low * device, _CELL, low, _DEVICES[device]) for device in range(devices))
    elif axis == "shard" or (axis == "tp" and each.tp is not None and (each.tp == 1 or len(each.shape) == 1)):
        wide = _CELL / devices
        yield from (_box(left + wide * device, top, wide, high, _DEVICES[device]) for device in range(devices))
    elif axis == "tp" and each.tp == 0:
        low = high / devices
        yield from (_box(left, top + low * device, _CELL, low, _DEVICES[device]) for device in range(devices))
    else:
        yield _box(left, top, _CELL, high, PALETTE["grey"])


def _box(left: float, top: float, wide: float, high: float, colour: str) -> str:
    return f"<rect x='{left:g}' y='{top:g}' width='{wide:g}' height='{high:g}' fill='{colour}'/>"


def _split_in_words(rows: Sequence[Parameter], patterns: Sequence[str]) -> str:
    whole = [each.name for each in rows if each.tp is None]
    sentences = {
        "ddp": "under ddp every device holds all parameters",
        "fsdp": "under fsdp each parameter is split by rows",
        "tp": f"under tp matmuls are split by rows or columns, and what stays whole is {', '.join(whole)}",
        "pp": "under pp each device holds some layers, the first the embeddings, the last the head",
    }
    return "; ".join(sentences[pattern] for pattern in patterns if pattern in sentences) or "shards of each parameter"


def _split_table(rows: Sequence[Parameter], patterns: Sequence[str], devices: int) -> Table:
    def on_first(each: Parameter, pattern: str) -> str | None:
        (axis,) = PATTERNS[pattern]
        if axis == "pp":
            layers = f"{each.count // devices} of {each.count} layers" if each.part == "block" else "whole"
            return None if each.part == "last" else layers
        sizes = {"tp": {"tp": devices}, "shard": {"shard": devices}}.get(axis, {})
        return " × ".join(map(str, each.split(**sizes)))

    lines = [
        [each.name, " × ".join(map(str, each.shape)), *(on_first(each, pattern) for pattern in patterns)]
        for each in rows
    ]
    return Table(["parameter", "shape", *(f"device 0 under {pattern}" for pattern in patterns)], lines)


def by_kind(plans: Mapping[str, Plan], caption: str = "") -> Drawing:
    """Bytes on the fullest device by kind, and what the busiest sends in a step: bars on one scale, one row a plan."""
    canvas, left, high = Canvas(), 130, 62
    longest = max(max(found.total_nbytes, found.sent_nbytes) for found in plans.values())
    unit, size = unit_of(longest)
    end = next(
        e * 10.0**p * size
        for p in range(4)
        for e in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8)
        if e * 10.0**p * size >= longest
    )
    scale, rows = (canvas.width - left - 12) / end, []
    for row, (name, found) in enumerate(plans.items()):
        share, at, y = found.fullest, left, high * row
        kinds = [*vars(share.held).values(), share.buffers_nbytes]
        canvas.words(0, y + 28, name)
        for (kind, colour), nbytes in zip(_KINDS.items(), kinds, strict=True):
            canvas.box(at, y, nbytes * scale, 28, colour, title=f"{kind} {with_unit(nbytes)}")
            at += nbytes * scale
        if at < canvas.width - 110:
            canvas.words(at + 8, y + 21, with_unit(share.total_nbytes))
        canvas.box(left, y + 32, found.sent_nbytes * scale, 14, _SENT, title=f"sent {with_unit(found.sent_nbytes)}")
        rows.append([name, *map(with_unit, (*kinds, share.total_nbytes, found.sent_nbytes))])
    ticks = [(share, f"{share * end / size:.3g}" if share < 1 else f"{end / size:.3g} {unit}") for share in _TICKS]
    canvas.axis(left, high * len(plans), canvas.width - left - 12, ticks)
    held = "; ".join(f"{row[0]} {row[-2]}, {row[-1]} sent" for row in rows)
    table = Table(["pattern", *_KINDS, "all", "sent"], rows, align="l" + "r" * 7)
    legend = key(_KINDS | {"sent in a step": _SENT})
    return Drawing(canvas.svg(), f"The fullest device holds: {held}", caption, table, legend=legend)


def traffic(plan: Plan) -> Table:
    """Every collective in a step of the busiest device."""
    rows = [
        [each.kind, each.axis, each.ranks, each.count, each.payload_nbytes, each.sent_nbytes]
        for each in plan.busiest.collectives
    ]
    columns = ["collective", "axis", "ranks", "count", "payload, bytes", "a rank sends, bytes"]
    return Table(columns, rows, folded=f"Every collective of a step: {len(rows)} kinds")


def matched(rows: Sequence[tuple[str, int, Sequence[Collective], Sequence[Collective]]]) -> Table:
    """Formula and count side by side. Each row: name, devices, planned and counted collectives of a step."""
    lines = []
    for name, devices, planned, counted in rows:
        sent = [sum(each.sent_nbytes for each in collectives) for collectives in (planned, counted)]
        calls = ", ".join(f"{each.count} {each.kind}" for each in counted)
        lines.append([name, devices, calls, *sent, tuple(planned) == tuple(counted)])
    equal = sum(line[-1] for line in lines)
    columns = ["pattern", "devices", "counted", "formula: bytes sent", "counted: bytes sent", "equal"]
    return Table(columns, lines, folded=f"Formula and count, {len(lines)} programs: {equal} equal to the byte")


def ranking(recommendation: Recommendation) -> list[str | Table]:
    """The recommended pattern and its reason, the others in their order, and why some are out."""
    out = _left_out(recommendation.refused)
    if not recommendation.choices:
        return [f"**Nothing fits.** {out}"]
    best = recommendation.choices[0]
    rows = [
        [
            each.plan.pattern + (", checkpoints" if each.plan.checkpointing else ""),
            " × ".join(map(str, each.plan.mesh.values())),
            with_unit(each.plan.total_nbytes),
            with_unit(each.plan.sent_nbytes),
            *map(significant, (each.step_ms, each.exposed_ms, each.bubble_ms, each.issued_ms)),
        ]
        for each in recommendation.choices
    ]
    columns = ["pattern", "mesh", "holds", "sends", "step, ms", "messages, ms", "bubble, ms", "issued, ms"]
    fit = "1 pattern fits" if len(rows) == 1 else f"{len(rows)} patterns fit: the shortest step first"
    table = Table(columns, rows, align="ll" + "r" * 6, folded=fit)
    return [f"**{best}.**", table, out or "Everything fits."]


def _left_out(refused: Mapping[str, str]) -> str:
    """What is too large, and how large; and what this number of devices cannot be divided for."""
    large = [f"{name} ({why.partition(': ')[2].partition(' a device')[0]} a device)"
             for name, why in refused.items() if why.startswith("does not fit")]  # fmt: skip
    uneven = [name for name, why in refused.items() if not why.startswith("does not fit")]
    parts = [f"Too large: {', '.join(large)}."] if large else []
    parts += [f"The devices do not divide the model, or make no mesh, for {', '.join(uneven)}."] if uneven else []
    return " ".join(parts)


def rates_that_it_takes(plans: Mapping[str, Plan], network: Network) -> Drawing:
    """How long the busiest device of each plan sends along its one axis, beside computing: on one machine that has all
    devices, on machines that the axis covers wholly, and with one device in each."""
    computing = 1e3 * compute_s(next(iter(plans.values())), network)
    places = {"one machine": 2**30, f"machines of {MACHINE}": MACHINE, "one device a machine": 1}
    taken = {
        name: [
            1e3 * sum(axis_s(found, axis, network, min(size, most)) for axis, size in found.mesh.items())
            for most in places.values()
        ]
        for name, found in plans.items()
    }
    longest = max(max(times) for times in taken.values())
    end = next(e * 10.0**p for p in range(8) for e in (1, 2, 5) if e * 10.0**p >= longest)
    canvas, left, high = Canvas(), 80, 80
    scale, colours = (canvas.width - left - 12) / end, dict(zip(places, ("blue", "orange", "vermillion"), strict=True))
    for row, (name, times) in enumerate(taken.items()):
        canvas.words(0, high * row + 40, name)
        for bar, (colour, milliseconds) in enumerate(zip(colours.values(), times, strict=True)):
            y, wide = high * row + 22 * bar, milliseconds * scale
            canvas.box(left, y, wide, 20, colour, title=f"{milliseconds:,.0f} ms")
            inside = wide > canvas.width - left - 120
            at = (left + wide - 8, "end") if inside else (left + wide + 8, "start")
            colour = "#000000" if inside else "ink"
            canvas.words(at[0], y + 16, f"{milliseconds:,.0f} ms", anchor=at[1], size=16, colour=colour)
    bottom = high * len(taken)
    canvas.line([(left + computing * scale, 0), (left + computing * scale, bottom)], thick=3, dashed=True)
    ticks = [(share, f"{share * end:,.0f}" if share < 1 else f"{end:,.0f} ms") for share in _TICKS]
    canvas.axis(left, bottom, canvas.width - left - 12, ticks)
    said = "; ".join(f"{name} {', '.join(f'{each:,.0f}' for each in times)} ms" for name, times in taken.items())
    rows = [[name, with_unit(plans[name].sent_nbytes), *(round(t) for t in times)] for name, times in taken.items()]
    return Drawing(
        canvas.svg(),
        f"Time to send what a step sends, on {', on '.join(places)}: {said}. A device computes for "
        f"{computing:,.0f} ms.",
        f"The time of all sending of a step. Assumed: {network.links}. Dashed: a device computes for "
        f"{computing:,.0f} ms.",
        Table(["pattern", "sends", *(f"{name}, ms" for name in places)], rows, align="lrrrr"),
        legend=key(colours),
    )


def divided(devices: Sequence[int], whole: int, each: Sequence[int]) -> Figure:
    """By how much so many devices divide ``whole`` bytes, of which each holds ``each``; and an even division."""
    figure = lines(
        [Series("as planned", devices, [whole / nbytes for nbytes in each]), Series("evenly", devices, devices)],
        x_title="devices",
        y_title="the whole, divided by",
        alt="What FSDP holds of the model is divided by the number of devices as long as there are rows to deal out: "
        + ", ".join(f"by {significant(whole / nbytes)} on {n:,}" for n, nbytes in zip(devices, each, strict=True)),
        caption="Parameters, gradients and state of a device under FSDP",
        log_x=True,
        log_y=True,
    )
    figure.plot.update_layout(height=280)
    return figure


def over_ddp(ratios: Mapping[str, Sequence[float]], devices: Sequence[int]) -> Figure:
    """How many times as much as DDP FSDP sends, by the number of devices, for each model."""
    said = "; ".join(f"{name}: {values[0]:.3g} on {devices[0]}, {values[-1]:.3g} on {devices[-1]:,}"
                     for name, values in ratios.items())  # fmt: skip
    figure = lines(
        [Series(name, devices, values) for name, values in ratios.items()],
        x_title="devices",
        y_title="bytes sent, FSDP over DDP",
        alt=f"FSDP sends less than 1.5 times what DDP does, until rows no longer divide among the devices. {said}",
        caption="In fp32, with rings",
        log_x=True,
        log_y=True,
    )
    figure.plot.update_layout(height=280)
    return figure
