"""The long losses as a picture: each seed's validation loss, rung beside rung, and which rungs are no worse."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import dots
from compile_lab.page.tables import Table

Result = Mapping[str, Any]


def validation(result: Result) -> dict[str, list[float]]:
    """Nats a byte on the held-out text at the end of each run: one a seed, by rung."""
    found: dict[str, list[float]] = {}
    for run in result["runs"]:
        found.setdefault(run["rung"], []).append(run["validation_loss"])
    return found


def no_worse(result: Result, judge: str) -> list[str]:
    """The other rungs of which no seed ends above the judge's worst. KeyError for a judge without runs."""
    found = validation(result)
    worst = max(found[judge])
    return [name for name, losses in found.items() if name != judge and max(losses) <= worst]


def difference(results: Sequence[Result], judge: str, other: str) -> tuple[float, float]:
    """How far the other rung's mean lies above the judge's over the seeds of all results, and its standard error.

    Nats a byte; the seeds of both are taken for independent runs. KeyError for a rung without runs.
    """
    ours, theirs = (
        [loss for result in results for loss in validation(result).get(name, [])] for name in (judge, other)
    )
    for name, losses in ((judge, ours), (other, theirs)):
        if len(losses) < 2:
            raise KeyError(f"{name} has {len(losses)} runs here; a spread needs two")
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (ours, theirs)))
    return statistics.fmean(theirs) - statistics.fmean(ours), error


def picture(result: Result, provenance: object | None = None) -> Drawing:
    """A row a seed and a dot a rung; the table has the mean of the last tenth of the training losses too."""
    found = validation(result)
    rows = [
        (run["rung"], run["seed"], f"{run['validation_loss']:.4f}", f"{_at_the_end(run['losses']):.4f}")
        for run in result["runs"]
    ]
    lowest = min(map(min, found.values()))
    at = {(run["rung"], run["seed"]): round(1e3 * (run["validation_loss"] - lowest), 2) for run in result["runs"]}
    seeds = sorted({run["seed"] for run in result["runs"]})
    above = {rung: [at.get((rung, seed)) for seed in seeds] for rung in found}
    mean = {name: statistics.fmean(losses) for name, losses in found.items()}
    return dots(
        [f"seed {seed}" for seed in seeds],
        above,
        unit="mnats",
        title="The mean of the seeds: "
        + ", ".join(f"{name} {loss:.3f}" for name, loss in mean.items())
        + " nats a byte.",
        caption=f"Loss on held-out text after {result['steps']:,} steps of {result['batch']} × {result['length']:,} "
        f"bytes, in thousandths of a nat above the lowest run's {lowest:.3f}",
        provenance=provenance,
        table=Table(["rung", "seed", "validation", "training, last tenth"], rows, align="lrrr"),
    )


def _at_the_end(losses: list[float]) -> float:
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)
