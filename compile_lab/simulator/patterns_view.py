"""Sharding patterns as a reader sees them: what is split, what is held, what is sent, what fits."""

from collections.abc import Mapping, Sequence

from ..page import tables
from ..page.figures import Drawing
from ..page.marks import Axis, Cell, Line, Row, cells, dotted, lines, segments
from ..page.tables import Table
from ..page.units import rounded, significant, unit_of, with_unit
from .collectives import Collective
from .meshes import MACHINE, PATTERNS, mesh_of
from .patterns import Plan
from .recommendation import Network, Recommendation, axis_s, compute_s
from .sharding import Parameter, Shape, parameters

KINDS = {
    "parameters": "blue",
    "gradients": "orange",
    "state": "green",
    "activations": "vermillion",
    "buffers": "grey",
}
SENT = "sent in a step"
COLOURS = KINDS | {SENT: "purple"}
SPLITS = {"whole on each device": "grey", "split by rows": "blue", "split by columns": "orange", "by layers": "green"}


def shards(shape: Shape, devices: int = 4) -> Drawing:
    """How DDP, FSDP, TP and PP split every parameter, identical layers folded. ValueError as ``patterns.plan``."""
    patterns = ("ddp", "fsdp", "tp", "pp")
    for pattern in patterns:
        mesh_of(shape, pattern, devices)
    rows = parameters(shape)
    whole = sum(each.tp is None for each in rows)
    return cells(
        {"": [[_cut(each, *PATTERNS[pattern]) for pattern in patterns] for each in rows]},
        rows=[each.name.replace("blocks.", "") for each in rows],
        columns=patterns,
        title=f"Of {len(rows)} kinds of parameters tensor parallel leaves {whole} whole on every device.",
        caption="* stands for each of the blocks; under pp each block is whole on one device.",
        colours=SPLITS,
        table=_split_table(rows, patterns, devices),
    )


def _cut(each: Parameter, axis: str) -> Cell:
    whole, by_rows, by_columns, by_layers = SPLITS
    if axis == "pp":
        return Cell({"block": "layers"}.get(each.part, each.part), by_layers)
    if axis == "shard" or (axis == "tp" and each.tp == 0):
        return Cell("rows", by_rows)
    return Cell("columns", by_columns) if axis == "tp" and each.tp == 1 else Cell("whole", whole)


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


def kinds(plan: Plan) -> dict[str, int]:
    """Bytes on the fullest device, by kind."""
    return dict(zip(KINDS, [*vars(plan.fullest.held).values(), plan.fullest.buffers_nbytes], strict=True))


def by_kind(plans: Mapping[str, Plan], caption: str, words: Mapping[str, str] | None = None) -> Drawing:
    """Bytes on the fullest device by kind, and under them what the busiest sends in a step.

    `words` say what each plan does: then each is a group of its own.
    """
    unit, size = unit_of(max(max(found.total_nbytes, found.sent_nbytes) for found in plans.values()))
    rows, listed = [], []
    for name, found in plans.items():
        group, sizes = f"{name}: {words[name]}" if words else "", kinds(found)
        held = {kind: nbytes / size for kind, nbytes in sizes.items() if nbytes}
        after = [with_unit(nbytes) for nbytes in (found.total_nbytes, found.sent_nbytes)]
        rows.append(Row("holds" if words else name, held, after[0], group, strong=not words))
        rows.append(Row("sends", {SENT: found.sent_nbytes / size}, after[1], group, thin=True))
        listed.append([name, *map(with_unit, sizes.values()), *after])
    least, most = (end(plans, key=lambda name: plans[name].total_nbytes) for end in (min, max))
    whose = [name if plans[name].devices == 1 else f"{name}'s fullest device" for name in (least, most)]
    ends = [f"{who} holds {with_unit(plans[at].total_nbytes)}" for who, at in zip(whose, (least, most), strict=True)]
    return segments(
        rows,
        Axis(unit=unit),
        title=f"{ends[0]}, the least; {ends[1]}, the most.",
        caption=caption,
        colours=COLOURS,
        table=Table(["pattern", *KINDS, "all", "sent"], listed, align="l" + "r" * 7),
    )


def traffic(plan: Plan) -> Table:
    """Every collective in a step of the busiest device."""
    rows: list[list[tables.Cell]] = [
        [each.kind, each.axis, each.ranks, each.count, each.payload_nbytes, each.sent_nbytes]
        for each in plan.busiest.collectives
    ]
    columns = ["collective", "axis", "ranks", "count", "payload, bytes", "a rank sends, bytes"]
    return Table(columns, rows, folded=f"Every collective of a step: {len(rows)} kinds")


def matched(rows: Sequence[tuple[str, int, Sequence[Collective], Sequence[Collective]]]) -> Table:
    """Formula and count side by side. Each row: name, devices, planned and counted collectives of a step."""
    lines: list[list[tables.Cell]] = []
    equal = 0
    for name, devices, planned, counted in rows:
        sent = [sum(each.sent_nbytes for each in collectives) for collectives in (planned, counted)]
        calls = ", ".join(f"{each.count} {each.kind}" for each in counted)
        same = tuple(planned) == tuple(counted)
        lines.append([name, devices, calls, *sent, same])
        equal += same
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
            with_unit(each.plan.peak_nbytes),
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


def by_devices(
    ratios: Mapping[str, Sequence[float]], devices: Sequence[int], quantity: str, title: str, level: float = 1
) -> Drawing:
    """Ratios of each series by the number of devices, and a line at `level`."""
    drawn = [
        Line(name, list(zip(devices, values, strict=True)), f"{values[-1]:.3g}×", dots=True)
        for name, values in ratios.items()
    ]
    across = Axis("devices", log=True, low=devices[0], until=devices[-1], ticks=devices)
    most = max(value for values in ratios.values() for value in values)
    up, levels = Axis(quantity, "×", log=True, until=1.2 * most), {f"{level:g}×": (level, "grey")}
    return lines({"": drawn}, across, up, title=title, references=levels)


def rates_that_it_takes(plans: Mapping[str, Plan], network: Network) -> Drawing:
    """How long the busiest device of each plan sends along its one axis, beside computing: on one machine that has all
    devices, on machines that the axis covers wholly, and with one device in each."""
    computing = compute_s(next(iter(plans.values())), network)
    places = {"one machine": 2**30, f"machines of {MACHINE}": MACHINE, "one device a machine": 1}
    taken = {
        name: {
            place: sum(axis_s(found, axis, network, min(size, most)) for axis, size in found.mesh.items())
            for place, most in places.items()
        }
        for name, found in plans.items()
    }
    name, times = next(iter(taken.items()))
    return dotted(
        [Row(name, times) for name, times in taken.items()],
        Axis("all sending of a step", "s", log=True),
        title=f"{name} sends for {', '.join(f'{time:.2g} s on {place}' for place, time in times.items())}.",
        caption=f"Assumed: {network.links}.",
        colours=dict(zip(places, ("blue", "orange", "vermillion"), strict=True)),
        references={f"a device computes for {computing:.2g} s": (computing, "grey")},
        table=Table(
            ["pattern", "sends", *(f"{place}, s" for place in places)],
            [
                [name, with_unit(plans[name].sent_nbytes), *map(rounded, times.values())]
                for name, times in taken.items()
            ],
            align="lrrrr",
        ),
    )
