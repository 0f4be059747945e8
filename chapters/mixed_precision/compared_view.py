"""Precisions side by side: bits to scale, what a call computes in, losses apart, errors in roundings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing, Figure, Series, bars
from compile_lab.page.tables import Table
from compile_lab.page.units import number
from compile_lab.precision.formats import FORMATS, Format

from . import view
from .training import Gradients, Training

Row = Mapping[str, Any]
BITS = {"sign": "grey", "exponent": "orange", "mantissa": "blue"}
LANES = {"fp32": "blue", "bf16": "orange", "both": "green"}


@door
def bits(shown: Sequence[Format] = tuple(FORMATS.values())) -> Drawing:
    """Each format's bits to scale, and next to them what they reach: the largest number, and the step after 1.

    >>> from chapters.mixed_precision.compared_view import bits
    >>> from compile_lab.precision.formats import FORMATS
    >>> bits([FORMATS["bf16"], FORMATS["fp16"]]).alt
    'Bits of exponent, which give range, and of mantissa, which give precision: bf16 8 and 7, fp16 5 and 10.'
    """
    canvas, wide, row, left = Canvas(), 17, 40, 90
    for at, one in enumerate(shown):
        top, x = at * row, left
        canvas.words(0, top + 24, one.name, bold=True)
        for part, count in (("sign", 1), ("exponent", one.exponent_bits), ("mantissa", one.mantissa_bits)):
            told = f"{count} bits of {part}" if count > 1 else part
            canvas.box(x, top + 4, count * wide - 2, 28, BITS[part], str(count) if count > 1 else "", title=told)
            x += count * wide
        canvas.words(660, top + 24, f"up to {number(one.largest)}")
        canvas.words(825, top + 24, f"1 + {one.ulp_at_one:.2g}")
    names = ", ".join(f"{one.name} {one.exponent_bits} and {one.mantissa_bits}" for one in shown)
    alt = f"Bits of exponent, which give range, and of mantissa, which give precision: {names}."
    caption = "Right: the largest number, and the next after 1."
    return Drawing(canvas.svg(), alt, caption, view.formats(shown), legend=key(BITS))


@door
def computed_in(by_device: Mapping[str, Sequence[Row]], given: str = "bf16") -> Drawing:
    """What each call computes in when it is given a tensor in ``given``: a row a call, a column a device.

    >>> from chapters.mixed_precision.compared_view import computed_in
    >>> read = {"linear": "bf16", "exp": "fp32"}
    >>> rows = [{"call": call, "given": "bf16", "ops": [(call, [dtype], [dtype])]} for call, dtype in read.items()]
    >>> computed_in({"CPU": rows}).alt
    'What calls compute in, given bf16. CPU: in bf16 linear. All others are cast to fp32 or mix both.'
    """
    columns = {
        device: {row["call"]: _lane(row) for row in rows if row["given"] == given} for device, rows in by_device.items()
    }
    calls = list(next(iter(columns.values())))
    canvas, row, left, wide = Canvas(), 34, 200, 800 / len(columns)
    for index, device in enumerate(columns):
        canvas.words(left + (index + 0.5) * wide, 20, device, bold=True, anchor="middle")
    for at, call in enumerate(calls):
        top = 34 + at * row
        canvas.words(0, top + 20, call)
        for index, lanes in enumerate(columns.values()):
            lane = lanes[call]
            words = "bf16, then fp32" if lane == "both" else lane
            canvas.box(left + index * wide, top, wide - 8, row - 6, LANES.get(lane, "grey"), words)
    told = "; ".join(f"{device}: in {given} {_named(lanes, given)}" for device, lanes in columns.items())
    alt = f"What calls compute in, given {given}. {told}. All others are cast to fp32 or mix both."
    legend = key({"reads fp32": LANES["fp32"], "reads bf16": LANES["bf16"], "one operation of each": LANES["both"]})
    return Drawing(canvas.svg(), alt, f"Every call was given {given}.", view.probes(by_device, given), legend=legend)


def _named(lanes: Mapping[str, str], given: str) -> str:
    return ", ".join(call for call, lane in lanes.items() if lane == given) or "none"


def _lane(row: Row) -> str:
    """The precision that its operations read: one, or both."""
    read = {name for op, inputs, _ in row["ops"] if "zeros" not in op for name in inputs}
    return next(iter(read)) if len(read) == 1 else "both"


PANELS, PANEL_WIDE, PANEL_HIGH = 4, 236, 104


@door
def apart(runs: Mapping[str, Training], reference: str, provenance: object = None, caption: str = "") -> Drawing:
    """How far each run's loss is from that of ``reference``, step by step: a panel a run, one logarithmic scale.

    Raises ValueError for a reference that is none of the runs, and where there is no other run.

    >>> from chapters.mixed_precision.compared_view import apart
    >>> from chapters.mixed_precision.training import Training
    >>> runs = {"fp64": Training((2.0, 1.0), 0.0), "bf16 parameters": Training((2.001, 1.02), 0.3)}
    >>> apart(runs, "fp64").alt
    'Differences of the loss from that of fp64, in a panel each. The medians, least first: bf16 parameters
    2e-02.'
    """
    others = {name: run for name, run in runs.items() if name != reference}
    if reference not in runs or not others:
        raise ValueError(f"reference={reference!r}: it must be one of the runs, with at least one other: {list(runs)}")
    exact = runs[reference].losses
    found = {
        name: [abs(one - wanted) for one, wanted in zip(run.losses, exact, strict=True)] for name, run in others.items()
    }
    low, high = _decades([value for values in found.values() for value in values if value > 0])
    canvas = Canvas()
    for at, (name, values) in enumerate(found.items()):
        left, top = 14 + at % PANELS * (PANEL_WIDE + 10), 24 + at // PANELS * (PANEL_HIGH + 46)
        canvas.words(left, top, name, bold=True, size=17)
        canvas.box(left, top + 8, PANEL_WIDE, PANEL_HIGH, faint=True, title=f"{name}: the last is {values[-1]:.1e}")
        for power in range(low, high + 1):
            y = top + 8 + PANEL_HIGH * (high - power) / (high - low)
            if power % 2 == 0:
                canvas.line([(left, y), (left + PANEL_WIDE, y)], "grey", thick=0.5)
                canvas.words(left + 3, y - 3, f"1e{power}", size=15)
        points = [
            (
                round(left + PANEL_WIDE * (step + 0.5) / len(values)),
                round(top + 8 + PANEL_HIGH * (high - max(low, math.log10(value))) / (high - low)),
            )
            for step, value in enumerate(values)
            if value > 0
        ]
        canvas.line(points, "blue", thick=2.5)
    middle = {name: sorted(values)[len(values) // 2] for name, values in found.items()}
    order = ", ".join(f"{name} {value:.0e}" for name, value in sorted(middle.items(), key=lambda item: item[1]))
    alt = f"Differences of the loss from that of {reference}, in a panel each. The medians, least first: {order}."
    caption = f"{caption} Distance from {reference}, in nats, over {len(exact)} steps from left to right.".strip()
    rows = [
        (name, *(f"{value:.1e}" for value in (values[0], middle[name], values[-1]))) for name, values in found.items()
    ]
    table = Table(["recipe", "first step", "median", "last step"], rows, align="lrrr")
    return Drawing(canvas.svg(), alt, caption, table, provenance)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = (math.log10(end(values)) for end in (min, max))
    return math.floor(low), max(math.ceil(high), math.floor(low) + 1)


@door
def roundings(rows: Iterable[Row], provenance: object = None) -> Figure:
    """Errors of operations in 16 bits, each divided by what rounding its exact result once would cost.

    >>> from chapters.mixed_precision.compared_view import roundings
    >>> found = {"op": "cumsum", "error": 8e-3, "rounding": 2e-3}
    >>> roundings([found | {"precision": name} for name in ("bf16", "fp16")], "a laptop").table
    a laptop
    operation     bf16  of rounding     fp16  of rounding
    ─────────  ───────  ───────────  ───────  ───────────
    cumsum     8.0e-03         4.0×  8.0e-03         4.0×
    """
    rows = [dict(row) for row in rows]
    ops = list(dict.fromkeys(row["op"] for row in rows))
    known = {(row["op"], row["precision"]): row["error"] / row["rounding"] for row in rows}
    series = [Series(name, ops, [known[op, name] for op in ops]) for name in ("bf16", "fp16")]
    drawn = bars(
        series,
        value_title="error, in roundings of the exact result",
        alt="A single operation costs one rounding, in bf16 and in fp16; chains cost more, a running sum most.",
        provenance=provenance,
    )
    return replace(drawn, table=view.errors(rows, provenance))


@door
def step_times(rows: Iterable[Row], provenance: object = None) -> Figure:
    """A training step's time in each precision, eager and compiled, with its quartiles.

    >>> from chapters.mixed_precision.compared_view import step_times
    >>> row = {"precision": "bf16", "compiled": True, "median_us": 9500, "low_us": 9400, "high_us": 9800}
    >>> step_times([row | {"launched": None, "peak_nbytes": 3e9}], "a laptop").table
    a laptop
    precision                   ms a step  × fp32  GPU busy, ms  peak, GB
    ─────────  ────────  ────────────────  ──────  ────────────  ────────
    bf16       compiled  9.5 (9.4 to 9.8)       –             –         3
    """
    rows = list(rows)
    names = [f"{row['precision']}{', compiled' if row['compiled'] else ''}" for row in rows]
    middle, low, high = ([row[field] / 1e3 for row in rows] for field in ("median_us", "low_us", "high_us"))
    drawn = bars(
        Series("a training step", names, middle, low, high),
        value_title="a training step, ms",
        alt="From fp32 to TF32 the step becomes almost three times as fast, from TF32 to bf16 twice as fast.",
        provenance=provenance,
    )
    return replace(drawn, table=view.steps(rows, provenance))


@door
def zero_shares(gradients: Mapping[str, Gradients], provenance: object = None) -> Figure:
    """The share of each layer's output gradient that is exactly zero, in %, one bar a recipe.

    >>> from chapters.mixed_precision.compared_view import zero_shares
    >>> from chapters.mixed_precision.training import Gradients
    >>> zero_shares({"fp16 autocast": Gradients({"mlp.up": 0.25, "mlp.down": 0.5}, largest=0.1, parameters={})}).alt
    'Most zeros: fp16 autocast, 50.0 % at mlp.down.'
    """
    modules = list(next(iter(gradients.values())).zeros)
    series = [Series(name, modules, [100 * one.zeros[at] for at in modules]) for name, one in gradients.items()]
    shown = [each for each in series if any(each.values)] or series[:1]
    most = {each.name: max(zip(each.values, modules, strict=True)) for each in shown}
    drawn = bars(
        shown,
        value_title="exactly zero, %",
        alt="Most zeros: " + "; ".join(f"{name}, {share:.1f} % at {at}" for name, (share, at) in most.items()) + ".",
        caption="Recipes without any zero are in the table only." if len(shown) < len(series) else "",
        provenance=provenance,
    )
    return replace(drawn, table=view.zeros(gradients))
