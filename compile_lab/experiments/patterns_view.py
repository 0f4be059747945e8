"""Recorded costs of sharding patterns as a reader sees them: what was planned, what was measured, the error."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..page.tables import Table
from ..page.units import BINARY, with_unit
from ..simulator.recommendation import Network
from .collectives import KINDS

Row = Mapping[str, Any]
"""Of `collectives.record`, or measured and planned, of `patterns.planned`."""

AS_FAST_AS_ISSUED = 0.9
"""A step is called limited by its program if issuing it took this share of it."""


def rates(rows: Sequence[Row], caption: str) -> Table:
    """Bandwidth of each kind of collective by size, as a link sees it, and the time of the smallest. One group."""
    sizes = sorted({row["nbytes"] for row in rows})
    by = {(row["kind"], row["nbytes"]): row for row in rows}
    lines = [[with_unit(size, BINARY), *(f"{by[kind, size]['bus_gb_s']:.3g}" for kind in KINDS)] for size in sizes[::2]]
    lines.append(
        [f"{with_unit(sizes[0], BINARY)}, in µs", *(f"{by[kind, sizes[0]]['median_us']:.0f}" for kind in KINDS)]
    )
    heads = ["GB/s a rank", *(kind.replace("_", "-") for kind in KINDS)]
    return Table(heads, lines, caption=caption, align="l" + "r" * len(KINDS))


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
    """Of the bytes planned for the turn, on the fullest rank, as `step_error`."""
    return row["turn_nbytes"] / max(row["peak_nbytes"]) - 1


def second_set(row: Row) -> int:
    """Bytes that the fullest rank held more before the timed steps than in them."""
    return max(row["first_peak_nbytes"]) - max(row["peak_nbytes"])


def in_order(rows: Iterable[Row]) -> list[bool]:
    """For each two rows whose planned times differ by a twentieth: are the measured ones in the plan's order?"""
    ordered = sorted(rows, key=lambda row: row["planned_us"])
    pairs = itertools.combinations(ordered, 2)
    return [a["median_us"] < b["median_us"] for a, b in pairs if b["planned_us"] > 1.05 * a["planned_us"]]


def by_its_program(row: Row) -> bool:
    """Was the step as long as its program took to issue it?"""
    return row["issued_us"] > AS_FAST_AS_ISSUED * row["median_us"]


def steps(rows: Iterable[Row], caption: str) -> Table:
    """Times of a step: planned, measured, the plan's error, and when the program had issued it all."""
    lines = []
    for row in rows:
        expected, measured, issued = (f"{row[key] / 1e3:.3g}" for key in ("planned_us", "median_us", "issued_us"))
        lines.append([pattern(row), expected, measured, f"{step_error(row):+.0%}", issued])
    return Table(["step, ms", "planned", "measured", "error", "issued"], lines, caption=caption, align="lrrrr")


def peaks(rows: Iterable[Row], caption: str) -> Table:
    """Peaks of the fullest rank: planned all at once and at the turn, measured, and the error of the turn's."""
    lines = []
    for row in rows:
        sizes = (
            f"{nbytes / 1e9:.3g}" for nbytes in (row["planned_nbytes"], row["turn_nbytes"], max(row["peak_nbytes"]))
        )
        lines.append([pattern(row), *sizes, f"{memory_error(row):+.1%}"])
    return Table(["peak, GB", "sum", "at the turn", "measured", "error"], lines, caption=caption, align="lrrrr")
