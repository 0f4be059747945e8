"""Recorded costs of sharding patterns as a reader sees them: what was planned, what was measured, the error."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.tables import Table
from compile_lab.page.units import BINARY, signed, with_unit
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.recommendation import Network

from ...shared.experiments.collectives import KINDS

Row = Mapping[str, Any]
"""Of `collectives.record`, or measured and planned, of `patterns.planned`."""

AS_FAST_AS_ISSUED = 0.9
"""A step is called limited by its program if issuing it took this share of it."""


def rates(rows: Sequence[Row], assumed: Network, ranks: int, provenance: object) -> Figure:
    """What a rank sends a second, by size, for each kind of collective of one group; and what the plan takes for it."""
    sizes = sorted({row["nbytes"] for row in rows})
    by = {(row["kind"], row["nbytes"]): row for row in rows}
    at = [size / 1e6 for size in sizes]
    each = [Series(kind.replace("_", "-"), at, [by[kind, size]["bus_gb_s"] for size in sizes]) for kind in KINDS]
    planned = [
        Series(
            f"{kind.replace('_', '-')}, planned",
            at,
            [_planned_gb_s(by[kind, size], assumed, ranks) for size in sizes],
        )
        for kind in ("all_reduce", "all_gather")
    ]
    errors = late(rows, assumed, ranks, 2**26)
    worst = ", ".join(f"{kind.replace('_', '-')} {signed(error, '.0%')}" for kind, error in errors.items())
    smallest = [by[kind, sizes[0]]["median_us"] for kind in KINDS]
    figure = lines(
        [*each, *planned],
        x_title="size of a message",
        y_title="GB/s a rank sends",
        alt=f"Each kind of collective comes near its full rate only with messages of hundreds of MB; the smallest, of "
        f"{with_unit(sizes[0], BINARY)}, takes {min(smallest):.0f} to {max(smallest):.0f} µs.",
        caption=f"A message of {with_unit(sizes[0], BINARY)} takes {min(smallest):.0f} to {max(smallest):.0f} µs; from "
        f"64 MiB on the measured time differs from the planned one at worst by {worst}",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )
    listed = [[with_unit(size, BINARY), *(f"{by[kind, size]['bus_gb_s']:.3g}" for kind in KINDS)] for size in sizes]
    heads = ["GB/s a rank sends", *(kind.replace("_", "-") for kind in KINDS)]
    figure.plot.update_layout(height=290)
    figure.plot.update_xaxes(tickvals=at[::3], ticktext=[with_unit(size, BINARY) for size in sizes[::3]])
    return replace(figure, table=Table(heads, listed, align="l" + "r" * len(KINDS)))


def _planned_gb_s(row: Row, network: Network, ranks: int) -> float:
    """What a rank sends a second in a collective inside a machine, as planned."""
    sent = Collective(row["kind"], "", ranks, 1, row["nbytes"]).sent_nbytes
    return sent / max(network.floor_s, network.links.seconds(row["kind"], ranks, ranks, sent)) / 1e9


def late(rows: Iterable[Row], network: Network, ranks: int, at_least: int) -> dict[str, float]:
    """For each kind, the measured time over the planned one, less one: the worst of its largest sizes."""
    found: dict[str, float] = {}
    for row in rows:
        if row["nbytes"] >= at_least:
            error = _planned_gb_s(row, network, ranks) / row["bus_gb_s"] - 1
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


def as_predicted(rows: Iterable[Row]) -> list[Row]:
    """The rows whose step was predicted before it ran, with that prediction as the plan."""
    return [
        {**row, "planned_us": row["predicted_us"]} for row in rows if row.get("predicted_us") and not row["stopped"]
    ]


def errors(rows: Iterable[Row]) -> str:
    """For each pattern, how far the plan's steps are off."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["pattern"], []).append(row)
    return ", ".join(f"{name} {_spread(each)}" for name, each in found.items())


def _spread(rows: Iterable[Row]) -> str:
    """The lowest and the highest error of the steps, or the only one."""
    found = sorted(map(step_error, rows))
    return " to ".join(dict.fromkeys(signed(each, ".0%") for each in (found[0], found[-1])))


def step_error(row: Row) -> float:
    """Of the planned time: 0.1 if the plan says a tenth more than was measured."""
    return row["planned_us"] / row["median_us"] - 1


def memory_error(row: Row) -> float:
    """Of the bytes planned for the turn, on the fullest rank, as `step_error`."""
    return row["turn_nbytes"] / max(row["peak_nbytes"]) - 1


def second_set(row: Row) -> int:
    """Bytes that the fullest rank held more before the timed steps than in them."""
    return max(row["first_peak_nbytes"]) - max(row["peak_nbytes"])


def pairs_in_order(rows: Iterable[Row]) -> dict[tuple[str, str], bool]:
    """For each two rows of one case whose measured quartiles do not overlap, named: has the plan their order?"""
    found = {}
    for a, b in itertools.combinations(rows, 2):
        quick, slow = sorted((a, b), key=lambda row: row["median_us"])
        if quick["high_us"] < slow["low_us"]:
            found[pattern(quick), pattern(slow)] = quick["planned_us"] < slow["planned_us"]
    return found


def orders(by_case: Mapping[str, Sequence[Row]], taken_from: Collection[str]) -> Table:
    """One row a case: how many pairs have the measured order, which have not, and the errors of the steps.

    taken_from: the cases from which rates of the plan were taken.
    """
    listed = []
    for name, rows in by_case.items():
        pairs = pairs_in_order(rows)
        wrong = "; ".join(f"{quick} is quicker than {slow}" for (quick, slow), right in pairs.items() if not right)
        spread = _spread(row for row in rows if row["ranks"] > 1)
        listed.append((name, name not in taken_from, f"{sum(pairs.values())} of {len(pairs)}", wrong or "none", spread))
    columns = ["case", "nothing taken from it", "pairs in order", "the plan misses that", "error"]
    return Table(columns, listed, align="lllll", folded="Case by case: pairs in order, and the plan's errors")


def by_its_program(row: Row) -> bool:
    """Was the step as long as its program took to issue it?"""
    return row["issued_us"] > AS_FAST_AS_ISSUED * row["median_us"]


def steps(rows: Sequence[Row], name: str, provenance: object) -> Drawing:
    """Times of a step: planned, measured with quartiles, and when the program had issued it all; numbers in a table."""
    listed = []
    for row in rows:
        expected, issued = (f"{row[name] / 1e3:.3g}" for name in ("planned_us", "issued_us"))
        quartiles = " to ".join(f"{row[name] / 1e3:.3g}" for name in ("low_us", "high_us"))
        listed.append(
            [pattern(row), expected, f"{row['median_us'] / 1e3:.3g}", quartiles, signed(step_error(row), ".0%"), issued]
        )
    table = Table(["step, ms", "planned", "measured", "quartiles", "error", "issued"], listed, align="lrrrrr")
    bars = [(row["planned_us"] / 1e3, row["median_us"] / 1e3, row) for row in rows]
    said = "; ".join(f"{line[0]} {line[1]} planned, {line[2]} measured" for line in listed)
    return _pairs(
        bars,
        "ms",
        f"Times of a step in ms: {said}",
        f"{name}. Thin: the quartiles. Mark: the program has issued all of the step",
        provenance,
        table,
    )


def peaks(rows: Sequence[Row], name: str, provenance: object) -> Drawing:
    """Peaks of the fullest rank: planned at the turn, measured; a mark at the sum of all that is planned."""
    listed, bars = [], []
    for row in rows:
        sizes = row["planned_nbytes"], row["turn_nbytes"], max(row["peak_nbytes"])
        listed.append([pattern(row), *(f"{nbytes / 1e9:.3g}" for nbytes in sizes), signed(memory_error(row), ".1%")])
        bars.append((row["turn_nbytes"] / 1e9, max(row["peak_nbytes"]) / 1e9, row))
    table = Table(["peak, GB", "sum", "at the turn", "measured", "error"], listed, align="lrrrr")
    said = "; ".join(f"{line[0]} {line[1]} in all, {line[2]} at the turn, {line[3]} measured" for line in listed)
    caption = f"{name}. Mark: the sum of all that is planned"
    return _pairs(bars, "GB", f"Peaks in GB: {said}", caption, provenance, table)


def _pairs(
    bars: Sequence[tuple[float, float, Row]], unit: str, alt: str, caption: str, provenance: object, table: Table
) -> Drawing:
    """For each row what was planned over what was measured, on one axis."""
    canvas, left, high = Canvas(), 170, 54
    marks = [row["issued_us"] / 1e3 if unit == "ms" else row["planned_nbytes"] / 1e9 for *_, row in bars]
    longest = max(max(planned, measured, mark) for (planned, measured, _), mark in zip(bars, marks, strict=True))
    end = next(e * 10.0**p for p in range(-1, 7) for e in (1, 1.5, 2, 3, 4, 5, 6, 8) if e * 10.0**p >= 1.02 * longest)
    scale = (canvas.width - left - 12) / end
    for number, ((planned, measured, row), mark) in enumerate(zip(bars, marks, strict=True)):
        y = high * number + 6
        canvas.words(0, y + 27, pattern(row))
        canvas.box(left, y, planned * scale, 16, "sky", title=f"planned {planned:.3g} {unit}")
        canvas.box(left, y + 18, measured * scale, 20, "blue", title=f"measured {measured:.3g} {unit}")
        if unit == "ms":
            low, above = (left + row[name] / 1e3 * scale for name in ("low_us", "high_us"))
            canvas.line([(low, y + 28), (above, y + 28)], thick=3)
        canvas.line([(left + mark * scale, y - 2), (left + mark * scale, y + 40)], "vermillion", thick=3)
    ticks = [(share, f"{share * end:.3g}" if share < 1 else f"{end:.3g} {unit}") for share in (0, 0.25, 0.5, 0.75, 1)]
    canvas.axis(left, high * len(bars) + 4, canvas.width - left - 12, ticks)
    mark = "all issued" if unit == "ms" else "the sum"
    legend = key({"planned" if unit == "ms" else "planned at the turn": "sky", "measured": "blue", mark: "vermillion"})
    return Drawing(canvas.svg(), alt, caption, table, provenance, legend)
