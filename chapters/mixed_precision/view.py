"""Precision as a reader sees it: formats, dtypes of operations, casts, errors, rates, trainings, and a panel."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.inductor.generated import GeneratedCode
from compile_lab.inductor.view import evidence
from compile_lab.page.tables import Cell, Code, Table
from compile_lab.page.units import milliseconds, number
from compile_lab.precision.casts import cast_kernels, casts_only, short
from compile_lab.precision.formats import FORMATS, Format

from .training import RECIPES, Gradients, Recipe, Training, distance, loss_in_float64

Row = Mapping[str, Any]
GB = 1e9


def formats(shown: Iterable[Format] = FORMATS.values()) -> Table:
    """One row a format: its bits, the numbers it reaches, and the distance from 1 to the next."""
    columns = ["format", "bits: sign, exponent, mantissa", "largest", "smallest normal", "smallest", "1 to the next"]
    rows = [
        (
            one.name,
            f"{one.bits} = 1 + {one.exponent_bits} + {one.mantissa_bits}",
            number(one.largest),
            *(f"{value:.2g}" for value in (one.smallest_normal, one.smallest, one.ulp_at_one)),
        )
        for one in shown
    ]
    return Table(columns, rows, align="lrrrrr")


def operations(table: Iterable[Row], caption: str = "") -> Table:
    """One row for the operations of one kind with the same dtypes: what they read, what they write, how many."""
    rows = [
        (_name(row["op"]), row["direction"], _dtypes(row["inputs"]), _dtypes(row["outputs"]), row["count"])
        for row in table
    ]
    return Table(["operation", "direction", "reads", "writes", "×"], rows, caption)


def probes(by_device: Mapping[str, Sequence[Row]]) -> Table:
    """What each call computes in when it is given a tensor in bf16, one column a device."""
    devices = {
        device: {row["call"]: row for row in rows if row["given"] == "bf16"} for device, rows in by_device.items()
    }
    calls = list(next(iter(devices.values())))
    rows = [[call, *(_computed(rows[call]) for rows in devices.values())] for call in calls]
    return Table(["call, given bf16", *devices], rows)


def _computed(row: Row) -> str:
    ops = [op for op in row["ops"] if not _name(op[0]).startswith("zeros")]
    told = [f"{_dtypes(reads)} → {_dtypes(writes)}" for _, reads, writes in ops]
    if len(ops) > 1:
        told = [f"{_name(op[0])}: {said}" for op, said in zip(ops, told, strict=True)]
    return "\n".join(told)


def _name(op: str) -> str:
    return op.partition(".")[2]


def _dtypes(names: Sequence[str]) -> str:
    return ", ".join(names) or "–"


def cast_kinds(found: Mapping[str, Mapping[str, int]]) -> Table:
    """One row a kind of cast, one column for each trace."""
    kinds = list(dict.fromkeys(kind for counts in found.values() for kind in counts))
    rows: list[list[Cell]] = [[kind, *(counts.get(kind, 0) for counts in found.values())] for kind in kinds]
    rows.append(["all", *(sum(counts.values()) for counts in found.values())])
    return Table(["what is cast", *found], rows)


def kernels(codes: Mapping[str, GeneratedCode]) -> Table:
    """One row for each generated code: launches, kernels that Inductor wrote, and what became of the casts.

    Folded: its line says how many kernels only cast.
    """
    rows, told = [], []
    for name, code in codes.items():
        one = cast_kernels(code.graphs)
        alone = [kernel.direction for kernel in code.kernels if casts_only(kernel)]
        halves = f"{alone.count('forward')} + {alone.count('backward')}"
        casts = one.casts, one.fused, one.only_casts, halves, one.only_casts_nbytes
        rows.append((name, one.launches, one.written, *casts))
        told.append(f"{name}: {one.only_casts} of {one.launches}")
    columns = ["", "launches", "written by Inductor", "casts", "fused", "kernels that only cast", "forward + backward"]
    caption = "; ".join(dict.fromkeys(map(evidence, codes.values())))
    folded = f"Kernels that only cast: {'; '.join(told)}"
    return Table([*columns, "bytes they move"], rows, caption, "lrrrrrrr", folded)


def errors(rows: Iterable[Row], provenance: object) -> Table:
    """One row an operation: its error in each precision, and by how much that is more than rounding the result once."""
    found = {(row["op"], row["precision"]): row for row in rows}
    ops = list(dict.fromkeys(op for op, _ in found))
    precisions = [one for one in ("fp32", "bf16", "fp16") if any(name == one for _, name in found)]
    table: list[list[Cell]] = []
    for op in ops:
        cells: list[Cell] = [op]
        for precision in precisions:
            row = found[op, precision]
            cells += [f"{row['error']:.1e}", f"{row['error'] / row['rounding']:.1f}×"]
        table.append(cells)
    columns = ["operation", *(title for one in precisions for title in (one, "of rounding"))]
    caption = (
        "A matmul in fp32 adds up a thousand terms in fp32 itself, so its error is that of many roundings. · "
        if "fp32" in precisions
        else ""
    )
    return Table(columns, table, f"{caption}{provenance}", "l" + "r" * 2 * len(precisions))


def rate_table(rows: Iterable[Row], n: int, provenance: object) -> Table:
    """The matmuls of one size: rate with its spread, ratio to fp32 and to TF32, error."""
    mine = {row["precision"]: row for row in rows if row["n"] == n}
    mine = {name: mine[name] for name in _in_order(mine.values())}
    table = [
        (
            name,
            f"{row['tflop_per_s']:,.0f} ({_rate(row, n, 'high_us'):,.0f} to {_rate(row, n, 'low_us'):,.0f})",
            *(_ratio(row, mine.get(other)) for other in ("fp32", "tf32")),
            f"{row['error']:.1e}",
        )
        for name, row in mine.items()
    ]
    columns = ["precision", "TFLOP/s", "× fp32", "× TF32", "error"]
    caption = (
        "“Error” includes rounding the inputs. “Quantised each time” finds the scales and casts both operands before "
        "each matmul, in eager: three passes over memory that every fp8 layer pays for somewhere."
    )
    return Table(columns, table, f"n = {n:,}. {caption} · {provenance}", "lrrrr")


def _in_order(rows: Iterable[Row]) -> list[str]:
    names = list(dict.fromkeys(row["precision"] for row in rows))
    known = list(FORMATS)
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))


def _rate(row: Row, n: int, field: str) -> float:
    return 2 * n**3 / row[field] / 1e6


def _ratio(row: Row, other: Row | None) -> str | None:
    return None if other is None else f"{other['median_us'] / row['median_us']:.2f}"


def steps(rows: Iterable[Row], provenance: object) -> Table:
    """One row a precision, eager or compiled: time of a training step, the GPU's busy time, memory at the peak."""
    rows = list(rows)
    reference = next((row for row in rows if row["precision"] == "fp32"), None)
    table: list[list[Cell]] = []
    for row in rows:
        busy, peak = row["launched"] and row["launched"]["gpu_ms"], row["peak_nbytes"] and row["peak_nbytes"] / GB
        table.append([*_which(row), milliseconds(row), _ratio(row, reference), busy, peak])
    columns = ["precision", "", "ms a step", "× fp32", "GPU busy, ms", "peak, GB"]
    return Table(columns, table, str(provenance), "llrrrr")


def step_casts(rows: Iterable[Row], provenance: object) -> Table:
    """One row a precision, eager or compiled: kernels launched in a training step, those that only cast, their time."""
    table = []
    for row in rows:
        if seen := row["launched"]:
            share = f"{100 * seen['cast_ms'] / seen['gpu_ms']:.1f} %"
            table.append([*_which(row), seen["kernels"], seen["cast_kernels"], seen["cast_ms"], share])
    columns = ["precision", "", "kernels", "that only cast", "ms in those", "of the GPU's time"]
    return Table(columns, table, str(provenance), "llrrrr")


def _which(row: Row) -> list[Cell]:
    return [row["precision"], "compiled" if row["compiled"] else "eager"]


def recipes(shown: Mapping[str, Recipe] = RECIPES) -> Table:
    """One row a recipe: in which dtype it keeps parameters, multiplies, and updates. Folded, for reference."""
    updates = {"stochastic": "fp32, rounded at random", "masters": "fp32, in the copy"}
    rows = []
    for name, one in shown.items():
        kept = short(one.parameters)
        matmuls = short(one.autocast or one.parameters) + ", the loss times a scale" * one.scaled
        copy = ", and a copy in fp32" * (one.updates == "masters")
        rows.append((name, kept + copy, matmuls, updates.get(one.updates, kept)))
    folded = "The recipes: the precision of parameters, matmuls and update"
    return Table(["recipe", "parameters", "matmuls", "update"], rows, folded=folded)


def endings(
    runs: Mapping[str, Training], reference: str, model: Any, unseen: Sequence[Any], provenance: object
) -> Table:
    """One row a run from ``model``: the loss of its last parameters, how far they are from the reference's, unmoved."""
    rows = []
    for name, run in runs.items():
        loss, apart = loss_in_float64(model, run, unseen), distance(run, runs[reference], model)
        rows.append((name, f"{loss:.4f}", f"{100 * apart:.3g} %", f"{100 * run.stuck:.1f} %"))
    caption = (
        "Loss at the end: of the final parameters on sentences not seen before, computed in float64 for all. "
        "(While training, runs with bf16 parameters also report their loss in bf16, in steps of 1/32.) "
        f"Parameters apart: their distance from those of the {reference} run, divided by how far the latter moved in "
        "training. "
        "Unmoved: how often a gradient was not zero, yet the step left its parameter unchanged."
    )
    columns = ["recipe", "loss at the end", "parameters apart", "unmoved"]
    folded = "How each run ended: loss, distance, unmoved parameters"
    return Table(columns, rows, f"{caption} · {provenance}", "lrrr", folded)


def trainings(rows: Iterable[Row]) -> dict[str, Training]:
    """The trainings of a recording of ``precision``, by recipe."""
    return {row["precision"]: Training(tuple(row["losses"]), row["stuck"]) for row in rows}


def quantisations(found: Mapping[tuple[str, str], Sequence[object]], provenance: object) -> Table:
    """One row a tensor and 8-bit format: what the cast does to it as it is, and with one scale. Folded."""
    rows = [(*names, *map(str, pair)) for names, pair in found.items()]
    folded = "Three tensors cast to two 8-bit formats: errors, and what became zero"
    return Table(["", "format", "as it is", "with a scale"], rows, str(provenance), folded=folded)


def zeros(gradients: Mapping[str, Gradients], caption: str = "") -> Table:
    """One row a linear layer: the share of the gradient of its output that is exactly zero, one column a recipe."""
    modules = list(next(iter(gradients.values())).zeros)
    rows: list[list[Cell]] = [
        [Code(module), *(f"{100 * one.zeros[module]:.1f} %" for one in gradients.values())] for module in modules
    ]
    return Table(["gradient of the output of", *gradients], rows, caption, "l" + "r" * len(gradients))


LOOKS = ("the format", "its errors", "its rates", "a training step")
PRECISIONS: dict[str, tuple[str, str, str, str]] = {
    "fp32": ("fp32", "fp32", "fp32", "nothing is cast, and TF32 is off: torch's default."),
    "TF32": ("tf32", "tf32", "tf32", 'fp32 everywhere but in the multiplier: `set_float32_matmul_precision("high")`.'),
    "bf16": ("bf16", "bf16", "bf16 autocast", "fp32's range with 8 bits of precision, the hidden one counted."),
    "fp16": ("fp16", "fp16", "fp16 autocast, scaled", "8 times finer than bf16, in a range that gradients leave."),
    "fp8 e4m3": ("fp8 e4m3", "fp8 e4m3", "", "for matmuls only, and with a scale for each tensor."),
}
"""For each choice of the explorer: the format, the name of its errors and rates, that of its step, a sentence."""


def panel(precision: str, look: str, recorded: Mapping[str, Any], provenance: object) -> list[str | Table]:
    """What one precision is, loses, gives, or makes of a training step; figures from a recording of ``precision``."""
    form, name, step, said = PRECISIONS[precision]
    head = f"**{precision}**: {said}"
    if look == "the format":
        return [head, formats([FORMATS[form]])]
    if look == "its errors":
        return [head, _error_panel(name, recorded, provenance)]
    if look == "its rates":
        mine = [row for row in recorded["rates"] if row["precision"].startswith(name)]
        rows = [
            (row["precision"], row["n"], row["tflop_per_s"], *_against(row, recorded["rates"]), f"{row['error']:.1e}")
            for row in mine
        ]
        columns = ["", "n", "TFLOP/s", "× fp32", "× TF32", "error"]
        return [head, Table(columns, rows, str(provenance), "lrrrrr")]
    shown = [row for row in recorded["steps"] if row["precision"] in (step, "fp32")]
    if not any(row["precision"] == step for row in shown):
        return [head, "torch's autocast casts nothing to it, so there is no step to show."]
    return [head, steps(shown, provenance)]


def _error_panel(name: str, recorded: Mapping[str, Any], provenance: object) -> Table | str:
    mine = [row for row in recorded["ops"] if row["precision"] == name]
    if not mine or name == "tf32":  # whose results are fp32: rounding them says nothing about it
        found = [row for row in recorded["rates"] if row["precision"] == name]
        rates = [(f"matmul, n = {row['n']:,}", f"{row['error']:.1e}") for row in found]
        return Table(["operation", "error, rounding of the inputs included"], rates, str(provenance), "lr")
    rows = [(row["op"], f"{row['error']:.1e}", f"{row['error'] / row['rounding']:.1f}×") for row in mine]
    return Table(["operation", "error", "of rounding the result once"], rows, str(provenance), "lrr")


def _against(row: Row, rows: Iterable[Row]) -> list[str | None]:
    same = {other["precision"]: other for other in rows if other["n"] == row["n"]}
    return [_ratio(row, same.get(name)) for name in ("fp32", "tf32")]
