"""Break-evens as a picture: predictions against what came."""

from collections.abc import Sequence

from compile_lab.modes.payback import Crossing
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, dotted
from compile_lab.page.tables import Table
from compile_lab.page.units import percent

NEAR = 0.2
"""How far from the real crossing a prediction may be to be called near."""


def against(crossings: Sequence[Crossing], provenance: object) -> Drawing:
    """Of each program the predicted crossing, with its interval, and the real one, on a logarithmic axis.

    Raises ValueError where none has crossed.
    """
    crossed = [one for one in crossings if one.ratio is not None]
    if not crossed:
        raise ValueError("none of these crossings was both predicted and reached: there is nothing to compare")
    ends = [steps for one in crossed for steps in (one.steps, one.predicted.steps, one.predicted.high) if steps]
    most = max(ends)
    rows = [
        Row(
            one.name,
            {"predicted": one.predicted.steps, "real": one.steps},
            f"{one.ratio:.2f}",
            spreads={"predicted": (one.predicted.low or one.predicted.steps or 0, one.predicted.high or most)},
        )
        for one in crossed
    ]
    return dotted(
        rows,
        Axis("steps", log=True),
        title=f"{sum(one.within(NEAR) for one in crossed)} of {len(crossed)} predicted break-evens are within "
        f"{percent(NEAR)} of the real crossing.",
        caption=f"Predicted from two short runs, with 95 % intervals; real where two long runs crossed, in "
        f"{crossed[0].clock}. Behind a row, predicted over real",
        colours={"predicted": "blue", "real": "orange"},
        provenance=provenance,
        table=compared(crossings),
    )


def compared(crossings: Sequence[Crossing]) -> Table:
    """One row a program: what was predicted, what came, and their ratio."""
    columns = [
        "program",
        "predicted [95 %]",
        "real",
        "predicted / real",
        "compile time in the prediction, s",
        "in the long run, s",
        "ms eager",
        "compiled",
    ]
    return Table(
        columns,
        [
            [
                f"{one.name} ({one.mode})" if one.mode != "default" else one.name,
                str(one.predicted),
                one.steps or "not reached",
                None if one.ratio is None else round(one.ratio, 3),
                round(one.predicted.compile_s, 2),
                round(one.compile_s, 2),
                round(one.predicted.eager_ms, 3),
                round(one.predicted.compiled_ms, 3),
            ]
            for one in crossings
        ],
    )
