"""Recorded costs of sharding patterns as a reader sees them: what was planned, what was measured, the error."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.page import marks
from compile_lab.page.figures import Drawing, Figure, Plot, Series, lines
from compile_lab.page.marks import Axis, dotted
from compile_lab.page.tables import Table
from compile_lab.page.units import BINARY, percent, signed, with_unit
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.recommendation import Network

from ...shared.experiments.collectives import KINDS

Row = Mapping[str, Any]
"""Of `collectives.record`, or measured and planned, of `patterns.planned`."""

AS_FAST_AS_ISSUED = 0.9
"""A step is called limited by its program if issuing it took this share of it."""
PLANNED, MEASURED = "planned", "measured"


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
    smallest = [by[kind, sizes[0]]["median_us"] for kind in KINDS]
    largest = [by[kind, sizes[-1]]["bus_gb_s"] for kind in KINDS]
    figure = lines(
        [*each, *planned],
        x_title="size of a message",
        y_title="GB/s a rank sends",
        title=f"Messages of {with_unit(sizes[0], BINARY)} take {min(smallest):.0f} to {max(smallest):.0f} µs; those of "
        f"{with_unit(sizes[-1], BINARY)} reach {min(largest):.0f} to {max(largest):.0f} GB/s.",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )
    listed = [[with_unit(size, BINARY), *(f"{by[kind, size]['bus_gb_s']:.3g}" for kind in KINDS)] for size in sizes]
    heads = ["GB/s a rank sends", *(kind.replace("_", "-") for kind in KINDS)]
    assert not isinstance(figure.plot, Plot)  # but plotly's own
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
    return ", ".join(f"{name} {_error_range(each)}" for name, each in found.items())


def _error_range(rows: Iterable[Row]) -> str:
    """The lowest and the highest error of the steps, or the only one."""
    found = sorted(map(step_error, rows))
    return " to ".join(dict.fromkeys(off_by(each) for each in (found[0], found[-1])))


def off_by(error: float, form: str = ".0f") -> str:
    """An error in per cent, with its sign: ``−3 %``."""
    return f"{signed(100 * error, form)} %"


def step_error(row: Row) -> float:
    """Of the planned time: 0.1 if the plan says a tenth more than was measured."""
    return row["planned_us"] / row["median_us"] - 1


def memory_error(row: Row) -> float:
    """Of the planned peak, on the fullest rank, as `step_error`."""
    return row["planned_peak_nbytes"] / max(row["peak_nbytes"]) - 1


def most_off(rows: Iterable[Row]) -> float:
    """The largest `memory_error` of the rows, without its sign."""
    return max(abs(memory_error(row)) for row in rows)


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


def orders(by_case: Mapping[str, Sequence[Row]]) -> Table:
    """One row a case: how many pairs have the measured order, which have not, and the errors of the steps."""
    listed = []
    for name, rows in by_case.items():
        pairs = pairs_in_order(rows)
        wrong = "; ".join(f"{quick} is quicker than {slow}" for (quick, slow), right in pairs.items() if not right)
        spread = _error_range(row for row in rows if row["ranks"] > 1)
        listed.append((name, f"{sum(pairs.values())} of {len(pairs)}", wrong or "none", spread))
    columns = ["case", "pairs in order", "orders that the plan gets wrong", "error"]
    return Table(columns, listed, align="llll", folded="Case by case: pairs in order, and the plan's errors")


def near(rows: Iterable[Row]) -> str:
    """How many of the steps on several devices the plan says within a tenth of what was measured."""
    off = [abs(step_error(row)) for row in rows if row["ranks"] > 1]
    return f"{sum(each <= 0.1 for each in off)} of {len(off)}"


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
            [pattern(row), expected, f"{row['median_us'] / 1e3:.3g}", quartiles, off_by(step_error(row)), issued]
        )
    return dotted(
        [
            marks.Row(
                pattern(row),
                {
                    "all issued": row["issued_us"] / 1e3,
                    PLANNED: row["planned_us"] / 1e3,
                    MEASURED: row["median_us"] / 1e3,
                },
                off_by(step_error(row)),
                spreads={MEASURED: (row["low_us"] / 1e3, row["high_us"] / 1e3)},
            )
            for row in rows
        ],
        Axis("a step", "ms"),
        title=f"The plan's steps are off by {_error_range(rows)}.",
        caption=f"{name}. Behind a row: the plan's error. Thin: the quartiles.",
        colours={PLANNED: "sky", MEASURED: "blue", "all issued": "vermillion"},
        provenance=provenance,
        table=Table(["step, ms", "planned", "measured", "quartiles", "error", "issued"], listed, align="lrrrrr"),
    )


def peaks(rows: Sequence[Row], name: str, provenance: object) -> Drawing:
    """Peaks of the fullest rank: planned, measured; and the sum of all that is planned."""
    drawn, listed = [], []
    high = [row for row in rows if row["planned_nbytes"] > max(row["peak_nbytes"])]
    for row in rows:
        sizes = [
            nbytes / 1e9 for nbytes in (row["planned_nbytes"], row["planned_peak_nbytes"], max(row["peak_nbytes"]))
        ]
        error, names = off_by(memory_error(row), ".1f"), ("the sum", f"{PLANNED} peak", MEASURED)
        drawn.append(marks.Row(pattern(row), dict(zip(names, sizes, strict=True)), error))
        listed.append([pattern(row), *(f"{size:.3g}" for size in sizes), error])
    return dotted(
        drawn,
        Axis("peak", "GB"),
        title=f"In {len(high)} of {len(rows)} cases the sum of all that is planned is above the measured peak; "
        f"the largest moment is off by {percent(most_off(rows), 1)} at most.",
        caption=f"{name}. Behind a row: the error of the planned peak.",
        colours={"the sum": "vermillion", f"{PLANNED} peak": "sky", MEASURED: "blue"},
        provenance=provenance,
        table=Table(["peak, GB", "sum", "planned peak", "measured", "error"], listed, align="lrrrr"),
    )


def gains(rows: Sequence[Row], provenance: object) -> Drawing:
    """Each step with compiled blocks beside the same in eager, and how long each took to issue. KeyError without it."""
    eager = {(case(row), pattern(row)): row for row in rows if not row["mode"]}
    pairs = [(eager[case({**row, "mode": None}), pattern(row)], row) for row in rows if row["mode"]]

    def times(name: str) -> str:
        ratios = [after["median_us"] / before["median_us"] for before, after in pairs if after["pattern"] == name]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"

    return dotted(
        [
            marks.Row(
                f"{after['model']}, {pattern(after)}",
                {"eager": before["median_us"] / 1e3, "compiled": after["median_us"] / 1e3},
                f"{before['issued_us'] / 1e3:.0f} → {after['issued_us'] / 1e3:.0f}",
            )
            for before, after in pairs
        ],
        Axis("a step", "ms"),
        title=f"Compiled blocks take {times('tp')} times as long under tensor parallel, and {times('ddp')} under DDP.",
        caption="Behind a row: when the program had issued all of the step, in ms, eager and compiled.",
        colours={"eager": "vermillion", "compiled": "blue"},
        provenance=provenance,
    )
