"""What the recordings ``overlap_compiled`` and ``overlap_scheduled`` show: a compiled step's time, and what it waits
for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_lab.doors import door
from compile_lab.measure.timing import distinct
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import dots
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles
from compile_lab.recordings import Recording


@dataclass(frozen=True)
class RankStep:
    """A step of the rank that took longest; what it exposes on the wire and sends is a profiled step's."""

    step_ms: float
    low_ms: float
    high_ms: float
    host_ms: float
    exposed_ms: float
    collectives: int


@door
def steps(recording: Recording, batch: int) -> dict[str, RankStep]:
    """The steps of so many sequences, by case; a case that torch did not compile has none.

    Raises ValueError, naming those there are, for another number of sequences.
    """
    runs = [run for run in recording.result["runs"] if run["batch"] == batch and "stopped" not in run]
    if not runs:
        known = sorted({run["batch"] for run in recording.result["runs"]})
        raise ValueError(f"batch={batch}: {recording.name} has steps of {' or '.join(map(str, known))} sequences")
    return {run["case"]: _slowest(run) for run in runs}


def _slowest(run: Mapping[str, Any]) -> RankStep:
    row = max(run["by_rank"], key=lambda row: row["step_ms"])
    sent = (run["timeline"] or {"collectives": ()})["collectives"]
    exposed_ms = row.get("wire_exposed_ms", row["exposed_ms"])
    return RankStep(row["step_ms"], row["low_ms"], row["high_ms"], row["host_ms"], exposed_ms, len(sent))


def picture(found: Mapping[str, RankStep], caption: str, provenance: object | None = None) -> Drawing:
    """A row for each step: its time, when its host had issued it, and what of its communication is exposed."""
    series = {
        "the step": [one.step_ms for one in found.values()],
        "its host had issued it": [one.host_ms for one in found.values()],
        "exposed on the wire": [one.exposed_ms for one in found.values()],
    }
    rows = [
        (
            case,
            with_quartiles(one.step_ms, one.low_ms, one.high_ms),
            f"{one.host_ms:.1f}",
            f"{one.exposed_ms:.1f}",
            one.collectives,
        )
        for case, one in found.items()
    ]
    columns = ["", "step, ms", "host, ms", "exposed, ms", "collectives"]
    least = min(found, key=lambda case: found[case].step_ms)
    return dots(
        list(found),
        series,
        unit="ms",
        until=10 * math.ceil(max(one.step_ms for one in found.values()) / 10),
        title=f"The shortest step, {least}, takes {found[least].step_ms:.0f} ms; its host issues it in "
        f"{found[least].host_ms:.0f}.",
        caption=caption,
        provenance=provenance,
        table=Table(columns, rows, caption, align="lrrrr"),
    )


def cut_or_whole(recording: Recording, batches: Sequence[int]) -> str:
    """A sentence: compiled DDP's step cut at its buckets and as one graph, for each number of sequences."""
    said = []
    for batch in batches:
        found = steps(recording, batch)
        cut, one = found["DDP, cut at its buckets"], found["DDP, one graph"]
        times = f"{cut.step_ms:.1f} ms cut, {one.step_ms:.1f} as one graph"
        said.append(f"with {batch} sequences {times if distinct(cut, one) else 'not told apart'}")
    return "; ".join(said)
