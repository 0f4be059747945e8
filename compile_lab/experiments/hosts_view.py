"""What another host changes, as a picture: a row a workload, a dot a mode."""

from collections.abc import Sequence

from ..page.dotplot import dots
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import with_quartiles
from .hosts import MODES, Pair


def picture(pairs: Sequence[Pair], provenance: object | None = None) -> Drawing:
    """How many times as long a call takes beside the other host; no dot where the quartiles overlap."""
    workloads = list(dict.fromkeys(one.workload for one in pairs))
    at = {(one.workload, one.mode): one for one in pairs}
    series = {mode: [at[workload, mode].ratio for workload in workloads] for mode in MODES}
    rows = [
        (
            one.workload,
            one.mode,
            f"{one.busy:.0%}",
            *(with_quartiles(call.median_ms, call.low_ms, call.high_ms) for call in (one.first.call, one.other.call)),
            _times(one.ratio),
        )
        for one in pairs
    ]
    columns = ["workload", "mode", "GPU busy", "a call, ms", "beside the other host, ms", "times as long"]
    said = "; ".join(f"{one.workload}, {one.mode}: {_times(one.ratio)}" for one in pairs)
    return dots(
        workloads,
        series,
        unit="×",
        alt=f"How many times as long a call takes beside the other host. {said}.",
        caption="A call beside the other host, in times of one beside the first; above, the GPU waits most; "
        "no dot where the two are not told apart",
        provenance=provenance,
        table=Table(columns, rows, align="llrrrr"),
    )


def _times(ratio: float | None) -> str:
    return "not told apart" if ratio is None else f"{ratio:.2f}×"
