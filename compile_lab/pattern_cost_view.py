"""Recorded costs of sharding patterns as a reader sees them: what was planned, what was measured, the error."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.choosing import Network
from compile_lab.collective_rates import KINDS
from compile_lab.panels import Table
from compile_lab.patterns_view import gb

Row = Mapping[str, Any]
"""A row of the recordings `patterns` and `patterns_compiled`: see `pattern_cost.pattern_costs`."""

AS_FAST_AS_ISSUED = 0.95
"""A step is called limited by its program if issuing it took this share of it."""


def rates(rows: Sequence[Row], caption: str) -> Table:
    """Bandwidth of each kind of collective by size, as a link sees it, and the time of the smallest. One group."""
    sizes = sorted({row["nbytes"] for row in rows})
    by = {(row["kind"], row["nbytes"]): row for row in rows}
    lines = [[_binary(size), *(f"{by[kind, size]['bus_gb_s']:.3g}" for kind in KINDS)] for size in sizes[::2]]
    lines.append([f"{_binary(sizes[0])}, in µs", *(f"{by[kind, sizes[0]]['median_us']:.0f}" for kind in KINDS)])
    heads = ["GB/s a rank", *(kind.replace("_", "-") for kind in KINDS)]
    return Table(heads, lines, caption=caption, align="l" + "r" * len(KINDS))


def _binary(nbytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes // size} {unit}"
    return f"{nbytes} bytes"


def late(rows: Iterable[Row], network: Network, at_least: int) -> dict[str, float]:
    """For each kind, the measured time over that at the assumed rate, less one: the worst of its largest sizes."""
    found: dict[str, float] = {}
    for row in rows:
        if row["nbytes"] >= at_least:
            error = network.inside_bytes_per_s / (row["bus_gb_s"] * 1e9) - 1
            found[row["kind"]] = max(error, found.get(row["kind"], error), key=abs)
    return found


def case(row: Row) -> str:
    """The model, how many sequences a rank had, and whether blocks were compiled."""
    return f"{row['model']}, {row['sequences']} sequences{', compiled' if row['mode'] else ''}"


def cases(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each case, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(case(row), []).append(row)
    return found


def pattern(row: Row) -> str:
    """The pattern, and on how many devices."""
    return row["pattern"] if row["ranks"] == 1 else f"{row['pattern']} on {row['ranks']}"


def step_error(row: Row) -> float:
    """Of the planned time: 0.1 if the plan says a tenth more than was measured."""
    return row["planned_us"] / row["median_us"] - 1


def memory_error(row: Row) -> float:
    """Of the planned bytes on the fullest rank, as `step_error`."""
    return max(row["planned_nbytes"]) / max(row["peak_nbytes"]) - 1


def by_its_program(row: Row) -> bool:
    """Was the step as long as its program took to issue it?"""
    return row["issued_us"] > AS_FAST_AS_ISSUED * row["median_us"]


def steps(rows: Iterable[Row], caption: str) -> Table:
    """Times of a step: planned, measured, the plan's error, and when the program had issued it all."""
    lines = []
    for row in _ran(rows):
        planned, measured, issued = (f"{row[key] / 1e3:.3g}" for key in ("planned_us", "median_us", "issued_us"))
        lines.append([pattern(row), planned, measured, f"{step_error(row):+.0%}", issued])
    return Table(["pattern", "planned, ms", "measured", "error", "issued in"], lines, caption=caption, align="lrrrr")


def peaks(rows: Iterable[Row], caption: str) -> Table:
    """Peaks of the fullest rank: planned, measured, the plan's error."""
    lines = [
        [pattern(row), *(gb(max(row[key])) for key in ("planned_nbytes", "peak_nbytes")), f"{memory_error(row):+.0%}"]
        for row in _ran(rows)
    ]
    return Table(["pattern", "planned", "measured", "error"], lines, caption=caption, align="lrrr")


def stopped(rows: Iterable[Row]) -> str:
    """Which patterns were not measured, and why. Empty if there are none."""
    return " ".join(f"{pattern(row)} was not measured: {row['stopped']}." for row in rows if row["stopped"])


def _ran(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row["stopped"]]
