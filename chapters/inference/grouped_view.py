"""A mixture of experts, pictured: time against tokens for each way, what is called."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compile_lab.doors import door
from compile_lab.page.figures import Figure, Series, lines
from compile_lab.page.tables import Table
from compile_lab.recordings import RecordedRow, Recording

from .grouped import LayerRun


@dataclass(frozen=True)
class LayerCost(RecordedRow):
    """One way at one size, from the recording: milliseconds, rate of the two matmuls, error against float64."""

    way: str
    experts: int
    tokens: int
    median_ms: float
    low_ms: float
    high_ms: float
    tflop_per_s: float
    error: float


@door
def recorded(recording: Recording) -> list[LayerCost]:
    """The rows of the recording `grouped`; what was stopped stands in its result, under "stopped"."""
    return [LayerCost.from_json(row) for row in recording.result["rows"]]


@door
def by_tokens(costs: Sequence[LayerCost], experts: int, provenance: object) -> Figure:
    """Milliseconds of the layer against tokens, both logarithmic, a line a way.

    ValueError where nothing was measured with so many experts.
    """
    mine = [one for one in costs if one.experts == experts]
    if not mine:
        known = sorted({one.experts for one in costs})
        raise ValueError(f"nothing was measured with {experts} experts; there is {known}")
    series = []
    for way in dict.fromkeys(one.way for one in mine):
        rows = sorted((one for one in mine if one.way == way), key=lambda one: one.tokens)
        spread = [[getattr(one, name) for one in rows] for name in ("median_ms", "low_ms", "high_ms")]
        series.append(Series(way, [one.tokens for one in rows], *spread))
    last = [(one.values[-1], one.name) for one in series]
    (least, quick), (most, slow) = min(last), max(last)
    return lines(
        series,
        x_title="tokens",
        y_title="ms a call",
        title=f"With the most tokens: {quick} {least:.3g} ms, {slow} {most:.3g} ms.",
        caption=f"{experts} experts, the whole layer, routing included",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )


@door
def runs_table(runs: Iterable[LayerRun]) -> Table:
    """Each way and mode: its error against float64, and the name under which its code calls the matmul."""
    columns = ["way", "mode", "error", "calls", "through the proxy", "stopped"]
    rows = [
        [
            *(run.way, run.mode, None if run.error is None else f"{run.error:.1e}"),
            *(", ".join(run.calls) or None, run.through_proxy, run.stopped or None),
        ]
        for run in runs
    ]
    kept = len(columns) - (not any(row[-1] for row in rows))
    return Table(columns[:kept], [row[:kept] for row in rows])
