"""A typed program as a reader sees it: types forward, types of the gradients, and what is sent either way."""

from collections.abc import Sequence

from ..doors import door
from ..page.tables import Table
from .spmd_types import GRADIENT, TypedStep


@door
def types_of(steps: Sequence[TypedStep], caption: str = "") -> Table:
    """One row an operation, in the order of the forward: its type and collective, and its gradient's.

    >>> from compile_lab.simulator.spmd_types import check
    >>> from compile_lab.simulator.spmd_types_view import types_of
    >>> steps = check(lambda ops, x: ops.all_reduce(ops.partial(ops.mean_of_squares(x)), to="I"), x="V")
    >>> [row[1:4] for row in types_of(steps).rows]
    [['mean_of_squares(V)', 'V', None], ['partial(V)', 'P', None], ['all_reduce(P)', 'I', 'all_reduce']]
    """
    rows = [
        [
            str(each.line or ""),
            _call(each),
            each.output,
            each.forward,
            GRADIENT[each.output],
            each.backward,
        ]
        for each in steps
    ]
    columns = ["line", "operation", "type", "sent forward", "gradient's type", "sent backward"]
    return Table(columns, rows, caption, align="llclcl")


def _call(step: TypedStep) -> str:
    if len(step.inputs) == 2:
        return f"{step.inputs[0]} {step.operation} {step.inputs[1]}"
    return f"{step.operation}({', '.join(step.inputs)})"
