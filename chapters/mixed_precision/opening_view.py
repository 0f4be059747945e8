"""The picture that opens the chapter on precision: one block's operations on two floors, and the casts between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit
from compile_lab.precision.casts import TypedOp, TypedTrace

LEFT, BOX, HIGH, LANES = 100, 80, 58, {"fp32": 20, "bf16": 148}
PARAMETERS = 276
NAMES = {"native_layer_norm": "layer\nnorm", "gelu": "GELU", "add": "add"}


@dataclass
class _Column:
    op: TypedOp
    name: str
    parameters: list[TypedOp] = field(default_factory=list)
    activations: list[TypedOp] = field(default_factory=list)


@door
def floors(trace: TypedTrace, caption: str = "", provenance: object = None) -> Drawing:
    """The forward of the first block: what is computed in fp32 above, what in bf16 below, each cast an arrow.

    ``trace`` is that of a model whose blocks begin with a layer norm, under bf16 autocast. Raises ValueError for one
    without two layer norms.

    >>> import torch
    >>> from chapters.mixed_precision.opening_view import floors
    >>> from compile_lab.precision.casts import dtypes
    >>> floors(dtypes(torch.nn.LayerNorm(4), torch.ones(2, 4)))
    Traceback (most recent call last):
        ...
    ValueError: this trace has 1 layer norms; a block has two, and the norm after it ends it
    """
    columns = _columns(trace)
    canvas, step = Canvas(), (1000 - LEFT) / len(columns)
    for lane, top in LANES.items():
        canvas.words(0, top + HIGH / 2 + 6, lane, bold=True)
    canvas.words(0, PARAMETERS + 24, "fp32", bold=True)
    canvas.words(0, PARAMETERS + 46, "weights")
    for at, column in enumerate(columns):
        left = LEFT + at * step
        lane = column.op.outputs[0]
        top = LANES.get(lane, LANES["fp32"])
        if at:
            before = LANES[columns[at - 1].op.outputs[0]]
            if before == top:
                canvas.line([(left - step + BOX, top + HIGH / 2), (left - 2, top + HIGH / 2)], arrow=True)
            else:
                down = before < top
                middle = left - (step - BOX) / 2
                points = [(left - step + BOX, before + HIGH / 2), (middle, before + HIGH / 2)]
                points += [(middle, top + HIGH / 2), (left - 2, top + HIGH / 2)]
                canvas.line(points, "vermillion" if down and column.activations else "ink", arrow=True, thick=3)
        canvas.box(left, top, BOX, HIGH, "blue" if lane == "fp32" else "orange", column.name, title=_told(column))
        canvas.words(left + BOX / 2, top + HIGH + 19, with_unit(column.op.nbytes), anchor="middle", size=15)
        if column.parameters:
            nbytes = sum(cast.nbytes for cast in column.parameters)
            middle = left + BOX / 2
            canvas.box(
                left, PARAMETERS, BOX, 34, "blue", f"{len(column.parameters)} casts", title=with_unit(2 * nbytes)
            )
            canvas.line([(middle, PARAMETERS - 2), (middle, top + HIGH + 26)], "vermillion", arrow=True, thick=3)
    parameters = [cast for column in columns for cast in column.parameters]
    activations = [cast for column in columns for cast in column.activations]
    back = {what: count for what, count in trace.cast_counts().items() if "gradient" in what}
    computed = {lane: sum(column.op.outputs[0] == lane for column in columns) for lane in LANES}
    alt = (
        f"One block forward: {computed['bf16']} operations in bf16, the matmuls and what lies between them, and "
        f"{computed['fp32']} in fp32, norms and the additions of the stream. {len(activations)} casts of an activation "
        f"and {len(parameters)} of a parameter lead from fp32 to bf16; none leads back."
    )
    told = (
        f"Cast are {len(parameters)} parameters ({with_unit(sum(each.nbytes for each in parameters))} written in bf16) "
        f"and {len(activations)} activations ({with_unit(sum(each.nbytes for each in activations))}). "
        f"In the whole step's backward: {', '.join(f'{count} casts of a {what}' for what, count in back.items())}."
    )
    rows = [
        (column.name.replace("-\n", ""), ", ".join(column.op.inputs), ", ".join(column.op.outputs), column.op.nbytes,
         len(column.activations), len(column.parameters))
        for column in columns
    ]  # fmt: skip
    table = Table(["operation", "reads", "writes", "bytes written", "activations cast", "parameters cast"], rows)
    legend = key({"fp32": "blue", "bf16": "orange", "a cast": "vermillion"})
    return Drawing(canvas.svg(), alt, f"{caption} {told}".strip(), table, provenance, legend)


def _told(column: _Column) -> str:
    return f"{column.op.op}: reads {', '.join(column.op.inputs)}, writes {with_unit(column.op.nbytes)}"


def _columns(trace: TypedTrace) -> list[_Column]:
    """The operations of the first block, from its first norm to before the norm that follows it, with their casts."""
    forward = [op for op in trace.ops if op.direction == "forward" and (op.computes or op.is_cast)]
    norms = [at for at, op in enumerate(forward) if op.op.endswith("native_layer_norm")]
    if len(norms) < 3:
        raise ValueError(f"this trace has {len(norms)} layer norms; a block has two, and the norm after it ends it")
    columns: list[_Column] = []
    waiting: list[TypedOp] = []
    for op in forward[norms[0] : norms[2]]:
        if op.is_cast:
            waiting.append(op)
            continue
        parameters = [cast for cast in waiting if cast.what == "parameter"]
        path = next((cast.name.split(".")[-2] for cast in parameters), "")
        short = op.op.partition(".")[2]
        name = path or NAMES.get(short) or ("atten-\ntion" if "attention" in short else short)
        columns.append(_Column(op, name, parameters, [cast for cast in waiting if cast.what == "activation"]))
        waiting = []
    return columns
