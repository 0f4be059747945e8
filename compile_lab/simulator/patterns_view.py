"""Sharding patterns as a reader sees them: what is split, what is held, what is sent, what fits."""

from collections.abc import Iterator, Mapping, Sequence

from ..page.figures import PALETTE, Drawing
from ..page.tables import Table
from ..page.units import with_unit
from .collectives import Collective
from .meshes import PATTERNS, mesh_of
from .patterns import Plan
from .recommendation import Recommendation
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
_AXIS, _AXIS_GB = 950, 200
CARDS_GB = (80, 141)
"""Memory of the cards that a panel compares with: A100 or H100, and H200."""


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
        "tp": f"under tp products are split by rows or columns, and whole remain {', '.join(whole)}",
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


def by_kind(plans: Mapping[str, Plan]) -> Table:
    """Bytes on the fullest device by kind, one row for each plan."""
    rows = []
    for name, plan in plans.items():
        share = plan.fullest
        kinds = [*vars(share.held).values(), share.buffers_nbytes, share.total_nbytes]
        rows.append([name, *map(with_unit, kinds)])
    return Table(["pattern", *_KINDS, "all"], rows, align="l" + "r" * 6)


def traffic(plan: Plan) -> Table:
    """Every collective in a step of the busiest device."""
    rows = [
        [each.kind, each.axis, each.ranks, each.count, each.payload_nbytes, each.sent_nbytes]
        for each in plan.busiest.collectives
    ]
    return Table(["collective", "axis", "ranks", "count", "payload, bytes", "a rank sends, bytes"], rows)


def matched(rows: Sequence[tuple[str, int, Sequence[Collective], Sequence[Collective]]]) -> Table:
    """Formula and count side by side. Each row: name, devices, planned and counted collectives of a step."""
    lines = []
    for name, devices, planned, counted in rows:
        sent = [sum(each.sent_nbytes for each in collectives) for collectives in (planned, counted)]
        calls = ", ".join(f"{each.count} {each.kind}" for each in counted)
        lines.append([name, devices, calls, *sent, tuple(planned) == tuple(counted)])
    return Table(["pattern", "devices", "counted", "formula: bytes sent", "counted: bytes sent", "equal"], lines)


def panel(plan: Plan, cards_gb: Sequence[float] = CARDS_GB) -> list[str | Drawing]:
    """What one device holds, what it sends, and whether it fits on these cards: a bar by kind, and two sentences."""
    share = plan.fullest
    kinds = dict(zip(_KINDS, [*vars(share.held).values(), share.buffers_nbytes], strict=True))
    total = share.total_nbytes
    mesh = " × ".join(f"{axis} {size}" for axis, size in plan.mesh.items()) or "one device"
    fits = ", ".join(f"{card:g} GB: {'fits' if total <= 0.9e9 * card else '**no**'}" for card in cards_gb)
    most = max(kinds, key=kinds.__getitem__)
    sent = [
        f"{with_unit(each.sent_nbytes)} {each.kind} along {each.axis}"
        f"{'' if plan.inside_machine(each.axis) else ' (network)'}"
        for each in plan.busiest.collectives
    ]
    return [
        f"**{mesh}.** A device holds **{with_unit(total)}**, most of it {most} ({kinds[most] / total:.0%}). {fits}.",
        _bar(kinds, total, cards_gb),
        f"A step sends **{with_unit(plan.sent_nbytes)}** a device{': ' if sent else ''}{'; '.join(sent)}.",
    ]


def _bar(kinds: Mapping[str, int], total: int, cards_gb: Sequence[float]) -> Drawing:
    """Bytes by kind over an axis that is the same for all plans and cards; what is longer is cut off, with an arrow."""
    scale = _AXIS / (1e9 * _AXIS_GB)
    parts, left = [], 0.0
    for name, nbytes in kinds.items():
        right = min(_AXIS, left + nbytes * scale)
        if right - left >= 1:
            parts.append(_box(round(left), 8, round(right) - round(left), 26, _KINDS[name]))
        left = right
    if beyond := total * scale > _AXIS:
        parts.append(f"<path d='M{_AXIS + 6} 10l20 11-20 11z'/>")
    parts += [
        f"<path d='M{round(1e9 * card * scale)} 0v40' stroke='currentColor' stroke-width='5'/>"
        for card in cards_gb
        if card <= _AXIS_GB
    ]
    step = _AXIS_GB // 5
    ticks = "".join(f"M{_AXIS * at // 5} 44v8" for at in range(6))
    parts.append(f"<path d='M0 44h{_AXIS}{ticks}' fill='none' stroke='currentColor' stroke-width='2'/>")
    numbers = [f"<text x='{_AXIS * at // 5}' y='72'>{step * at}</text>" for at in range(1, 5)]
    parts.append(f"<g text-anchor='middle'>{''.join(numbers)}</g>")
    parts.append(f"<text x='{_AXIS + 40}' y='72' text-anchor='end'>{_AXIS_GB} GB</text>")
    svg = f"<svg viewBox='0 0 1000 80' font-size='20' fill='currentColor'>{''.join(parts)}</svg>"
    held = ", ".join(f"{name} {with_unit(nbytes)}" for name, nbytes in kinds.items() if nbytes)
    marks = " and ".join(f"{card:g}" for card in cards_gb)
    swatch = "<span style='white-space:nowrap'><span style='color:{}'>■</span> {} {}</span>"
    legend = " &nbsp; ".join(swatch.format(_KINDS[name], name, with_unit(nbytes)) for name, nbytes in kinds.items())
    legend += " &nbsp; | memory of the card" + (". ▶ It goes on beyond the axis" if beyond else "")
    return Drawing(svg, f"A bar of {with_unit(total)} beside a mark at {marks} GB: {held}", legend=f"{legend}.")


def ranking(recommendation: Recommendation) -> list[str | Table]:
    """The recommended pattern and its reason, the others in their order, and why some are out."""
    out = "; ".join(f"{name} {_short(why)}" for name, why in recommendation.refused.items())
    if not recommendation.choices:
        return [f"**Nothing fits.** {out}"]
    best = recommendation.choices[0]
    rows = [
        [
            each.plan.pattern,
            " × ".join(map(str, each.plan.mesh.values())),
            with_unit(each.plan.total_nbytes),
            with_unit(each.plan.sent_nbytes),
            *(f"{value:.3g}" for value in (each.step_ms, each.exposed_ms, each.bubble_ms)),
        ]
        for each in recommendation.choices
    ]
    columns = ["pattern", "mesh", "holds", "sends", "step, ms", "waits, ms", "bubble, ms"]
    return [f"**{best}.**", Table(columns, rows, align="ll" + "r" * 5), f"Out: {out}." if out else "Everything fits."]


def _short(why: str) -> str:
    return why.removeprefix("does not divide: ").partition(": tensor")[0].partition(": each")[0].partition(",")[0]
