"""Precisions drawn: a block's operations and casts, bits, what a call computes in, losses, errors, rates, times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compile_lab.doors import door
from compile_lab.page import marks, tables
from compile_lab.page.figures import Drawing, Series
from compile_lab.page.marks import Axis, Cell, Line, Row
from compile_lab.page.tables import Table
from compile_lab.page.units import number, with_unit
from compile_lab.precision.casts import TypedOp, TypedTrace
from compile_lab.precision.formats import FORMATS, Format

from . import view
from .training import Gradients, Training

Recorded = Mapping[str, Any]
COLOURS = {"fp32": "blue", "tf32": "sky", "bf16": "orange", "fp16": "purple", "fp8 e4m3": "green"}
COLOURS |= {"fp8 e4m3, quantised each time": "grey"}
CAST = "a cast"
BITS = {"sign": "grey", "exponent": "green", "mantissa": "sky"}
NAMES = {"native_layer_norm": "layer norm", "gelu": "GELU"}
PARTS = ("first third of the steps", "second third", "last third")


@door
def floors(trace: TypedTrace, caption: str = "") -> Drawing:
    """The forward of the first block: each operation with the bytes that it writes, and the casts before it.

    ``trace`` is that of a model whose blocks begin with a layer norm, under bf16 autocast. Raises ValueError for one
    without two layer norms and the next block's.

    >>> import torch
    >>> from chapters.mixed_precision.compared_view import floors
    >>> from compile_lab.precision.casts import dtypes
    >>> floors(dtypes(torch.nn.LayerNorm(4), torch.ones(2, 4)))
    Traceback (most recent call last):
        ...
    ValueError: this trace has 1 layer norms; a block has two, and the norm after it ends it
    """
    rows, cast = [], 0
    cells: list[list[tables.Cell]] = []
    made: list[str] = []
    for op, casts in _block(trace):
        given = {what: [each for each in casts if each.what == what] for what in ("activation", "parameter")}
        path = next((each.name.split(".")[-2] for each in given["parameter"]), "")
        short = op.op.partition(".")[2]
        name = path or NAMES.get(short) or ("attention" if "attention" in short else short)
        if casts:
            told = ", ".join(f"{len(each)} {what}{'s' * (len(each) > 1)}" for what, each in given.items() if each)
            nbytes = sum(each.nbytes for each in casts)
            rows.append(Row(f"cast {told}", {CAST: nbytes / 1e3}, with_unit(nbytes), thin=True))
        rows.append(Row(name, {op.outputs[0]: op.nbytes / 1e3}, with_unit(op.nbytes)))
        cells.append([name, *map(", ".join, (op.inputs, op.outputs)), op.nbytes, *map(len, given.values())])
        made, cast = [*made, op.outputs[0]], cast + len(casts)
    columns = ["operation", "reads", "writes", "bytes written", "activations cast", "parameters cast"]
    return marks.segments(
        rows,
        Axis("written", "kB"),
        title=f"Of {len(made)} operations {made.count('bf16')} write bf16 and {made.count('fp32')} fp32; {cast} casts "
        "prepare their inputs.",
        caption=caption,
        colours=COLOURS | {CAST: "vermillion"},
        table=Table(columns, cells),
    )


def _block(trace: TypedTrace) -> Iterator[tuple[TypedOp, list[TypedOp]]]:
    """The operations of the first block, from its first norm to before the norm that follows it, with their casts."""
    forward = [op for op in trace.ops if op.direction == "forward" and (op.computes or op.is_cast)]
    norms = [at for at, op in enumerate(forward) if op.op.endswith("native_layer_norm")]
    if len(norms) < 3:
        raise ValueError(f"this trace has {len(norms)} layer norms; a block has two, and the norm after it ends it")
    waiting: list[TypedOp] = []
    for op in forward[norms[0] : norms[2]]:
        if op.is_cast:
            waiting.append(op)
        else:
            yield op, waiting
            waiting = []


@door
def bits(shown: Sequence[Format] = tuple(FORMATS.values())) -> Drawing:
    """Each format's bits to scale, and behind them what they reach: the largest number, and the step after 1.

    >>> from chapters.mixed_precision.compared_view import bits
    >>> from compile_lab.precision.formats import FORMATS
    >>> bits([FORMATS["bf16"], FORMATS["fp16"]]).title
    'The exponent has 5 to 8 bits, the mantissa 7 to 10.'
    """
    rows = []
    for one in shown:
        counts = {"sign": 1, "exponent": one.exponent_bits, "mantissa": one.mantissa_bits}
        rows.append(Row(one.name, counts, f"up to {number(one.largest)}, 1 + {one.ulp_at_one:.2g}"))
    ends = [
        f"{min(found)} to {max(found)}"
        for found in ([one.exponent_bits for one in shown], [one.mantissa_bits for one in shown])
    ]
    return marks.segments(
        rows,
        Axis("", "bits", until=32, ticks=range(0, 33, 8)),
        title=f"The exponent has {ends[0]} bits, the mantissa {ends[1]}.",
        caption="Behind the bits: the largest number, and the smallest one above 1.",
        colours=BITS,
        table=view.formats(shown),
    )


@door
def computed_in(by_device: Mapping[str, Sequence[Recorded]]) -> Drawing:
    """What each call computes in when it is given a tensor in bf16: a row a call, a column a device.

    >>> from chapters.mixed_precision.compared_view import computed_in
    >>> read = {"linear": "bf16", "exp": "fp32"}
    >>> rows = [{"call": call, "given": "bf16", "ops": [(call, [dtype], [dtype])]} for call, dtype in read.items()]
    >>> computed_in({"CPU": rows, "GPU": rows[:1] + rows[1:]}).title
    'Given bf16, all devices read the same precision in 2 of 2 calls.'
    """
    columns = {
        device: {row["call"]: _lane(row) for row in rows if row["given"] == "bf16"}
        for device, rows in by_device.items()
    }
    calls = list(next(iter(columns.values())))
    grid = [[Cell(lanes[call], lanes[call]) for lanes in columns.values()] for call in calls]
    alike = sum(len({cell.words for cell in row}) == 1 for row in grid)
    return marks.cells(
        {"": grid},
        rows=calls,
        columns=list(columns),
        title=f"Given bf16, all devices read the same precision in {alike} of {len(calls)} calls.",
        caption="“both”: one input or operation is in bf16 and another in fp32.",
        colours={name: COLOURS.get(name, "grey") for name in dict.fromkeys(c.series for row in grid for c in row)},
        table=view.probes(by_device),
    )


def _lane(row: Recorded) -> str:
    """The precision that its operations read: one, or both."""
    read = {name for op, inputs, _ in row["ops"] if "zeros" not in op for name in inputs}
    return next(iter(read)) if len(read) == 1 else "both"


@door
def apart(runs: Mapping[str, Training], reference: str, provenance: object = None, caption: str = "") -> Drawing:
    """How far each run's loss is from that of ``reference``: the median distance in each third of the steps.

    Raises ValueError for a reference that is none of the runs, and where there is no other run.

    >>> from chapters.mixed_precision.compared_view import apart
    >>> from chapters.mixed_precision.training import Training
    >>> runs = {"fp64": Training((3.0, 2.0, 1.0), 0.0), "bf16 parameters": Training((3.001, 2.01, 1.02), 0.3)}
    >>> apart(runs, "fp64").title
    "In the last third of the steps the loss differs from fp64's by 2e-02 (bf16 parameters) to 2e-02 (bf16 parameters)."
    """
    others = {name: run for name, run in runs.items() if name != reference}
    if reference not in runs or not others:
        raise ValueError(f"reference={reference!r}: it must be one of the runs, with at least one other: {list(runs)}")
    exact, found = runs[reference].losses, {}
    third = -(-len(exact) // 3)
    for name, run in others.items():
        off = [abs(one - wanted) for one, wanted in zip(run.losses, exact, strict=True)]
        parts = [sorted(off[at : at + third]) for at in range(0, len(off), third)]
        found[name] = [each[len(each) // 2] for each in parts]
    ends = sorted(((values[-1], name) for name, values in found.items()), key=lambda end: end[0])
    least, most = (f"{value:.0e} ({name})" for value, name in (ends[0], ends[-1]))
    rows = [Row(name, dict(zip(PARTS, values, strict=True)), after="") for name, values in found.items()]
    cells = [(name, *(f"{value:.1e}" for value in values)) for name, values in found.items()]
    return marks.dotted(
        rows,
        Axis(f"from the loss of {reference}", "nats", log=True),
        title=f"In the last third of the steps the loss differs from {reference}'s by {least} to {most}.",
        caption=caption,
        colours=dict(zip(PARTS, ("sky", "grey", "green"), strict=True)),
        provenance=provenance,
        table=Table(["recipe", *PARTS], cells, align="lrrr"),
    )


@door
def roundings(rows: Iterable[Recorded], provenance: object = None) -> Drawing:
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
    short = [row for row in rows if row["precision"] in ("bf16", "fp16")]
    known = {(row["op"], row["precision"]): row["error"] / row["rounding"] for row in short}
    (op, precision), most = max(known.items(), key=lambda item: item[1])
    drawn = [
        Row(op, {name: known[op, name] for name in ("bf16", "fp16")}) for op in dict.fromkeys(op for op, _ in known)
    ]
    return marks.dotted(
        drawn,
        Axis("in roundings of the exact result", "×"),
        title=f"The largest error is {marks.short(most)} roundings: “{op}” in {precision}.",
        colours=COLOURS,
        references={"one rounding": (1, "grey")},
        provenance=provenance,
        table=view.errors(rows, provenance),
    )


@door
def step_times(rows: Iterable[Recorded], provenance: object = None) -> Drawing:
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
    ends = [
        f"{marks.short(time)} ms ({name})"
        for time, name in (end(zip(middle, names, strict=True)) for end in (min, max))
    ]
    return marks.bars(
        Series("a training step", names, middle, low, high),
        value_title="a training step, ms",
        title=f"A step takes from {ends[0]} to {ends[1]}.",
        provenance=provenance,
        table=view.steps(rows, provenance),
    )


@door
def zero_shares(gradients: Mapping[str, Gradients], provenance: object = None) -> Drawing:
    """The share of each layer's output gradient that is exactly zero, in %, a dot for each recipe.

    >>> from chapters.mixed_precision.compared_view import zero_shares
    >>> from chapters.mixed_precision.training import Gradients
    >>> zero_shares({"fp16": Gradients({"mlp.up": 0.25, "mlp.down": 0.5}, largest=0.1, parameters={})}).title
    'In fp16 50.0 % of the gradient at mlp.down is exactly zero.'
    """
    shares = {(at, name): 100 * share for name, one in gradients.items() for at, share in one.zeros.items()}
    shown = [name for name, one in gradients.items() if any(one.zeros.values())] or list(gradients)[:1]
    modules = dict.fromkeys(at for at, _ in shares)
    (at, name), most = max(shares.items(), key=lambda item: item[1])
    return marks.dotted(
        [Row(at, {name: shares[at, name] for name in shown}, code=True) for at in modules],
        Axis("exactly zero", "%"),
        title=f"In {name} {most:.1f} % of the gradient at {at} is exactly zero.",
        caption="Recipes without any zero are in the table only." if len(shown) < len(gradients) else "",
        colours={name: COLOURS.get(name, "grey") for name in shown},
        provenance=provenance,
        table=view.zeros(gradients),
    )


@door
def rates(rows: Sequence[Recorded], provenance: object = None) -> Drawing:
    """Rate of a matmul over its size, one line a precision."""
    found = {name: {row["n"]: row["tflop_per_s"] for row in rows if row["precision"] == name} for name in COLOURS}
    n = max(found["fp32"])
    at_n = [f"{found[name][n]:,.0f} TFLOP/s in {name}" for name in ("bf16", "tf32", "fp32") if n in found[name]]
    return marks.lines(
        {"": [Line(name, [*points.items()], dots=True) for name, points in found.items() if points]},
        Axis("n of an n×n matmul", log=True, low=min(found["fp32"]), until=n, ticks=sorted(found["fp32"])),
        Axis("TFLOP/s", log=True),
        title=f"At n = {n:,} a matmul runs at {', '.join(at_n)}.",
        colours=COLOURS,
        provenance=provenance,
    )


@door
def loss_scale(run: Training, provenance: object = None) -> Drawing:
    """The loss scale at each step; where it falls, the step was skipped."""
    return marks.lines(
        {"": [Line("loss scale", [*enumerate(run.scales)], stepped=True)]},
        Axis("step", until=len(run.scales)),
        Axis("loss scale"),
        title=f"The loss scale falls at {len(run.skipped)} of {len(run.scales)} steps, which were skipped.",
        provenance=provenance,
    )
