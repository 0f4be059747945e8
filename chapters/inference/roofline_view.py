"""The roofline of decode: how long a step must take at least, at each batch, and how long it took in each mode."""

from collections.abc import Sequence
from dataclasses import replace

from compile_lab.inference.service import PhaseCost
from compile_lab.modes.totals_view import COLOURS
from compile_lab.page.figures import Figure, Series, lines
from compile_lab.page.tables import Table
from compile_lab.page.units import number, rounded, with_unit
from compile_lab.simulator.serving import DecodeWork, least_ms, most_slots, turning_batch

BATCHES = tuple(2**power for power in range(11))


def roofline(
    work: DecodeWork,
    costs: Sequence[PhaseCost],
    bytes_per_s: float,
    flop_per_s: float,
    provenance: object | None = None,
) -> Figure:
    """Time of a decode step over the batch, on logarithmic axes: what reading and computing need and what was taken.

    The share of the limit that each mode reaches is in the table. ValueError if no decode step was measured.
    """
    done = sorted((cost for cost in costs if cost.phase == "decode" and cost.call), key=lambda cost: cost.request.batch)
    if not done:
        raise ValueError("nothing to draw: no decode step was measured")
    reading = [rounded(1e3 * work.nbytes(batch) / bytes_per_s) for batch in BATCHES]
    computing = [rounded(1e3 * work.flop(batch) / flop_per_s) for batch in BATCHES]
    series = [Series("least, to read", BATCHES, reading), Series("least, to compute", BATCHES, computing)]
    for mode in [mode for mode in COLOURS if any(cost.mode == mode for cost in done)]:
        calls = {cost.request.batch: cost.call for cost in done if cost.mode == mode}
        times = [[getattr(call, name) for call in calls.values()] for name in ("median_ms", "low_ms", "high_ms")]
        series.append(Series(mode, list(calls), *times))
    rows = [_row(work, cost, cost.call.median_ms, bytes_per_s, flop_per_s) for cost in done if cost.call]
    low, high = (end(rows, key=lambda row: row[0]) for end in (min, max))
    said = "; ".join(f"at batch {row[0]} {row[1]} reaches {row[5]} of its limit" for row in (low, high))
    figure = lines(
        series,
        x_title="sequences in the batch",
        y_title="ms a decode step",
        title=f"{said[0].upper()}{said[1:]}.",
        caption=f"a copy moves {with_unit(bytes_per_s)} a second here, a large matmul computes "
        f"{number(rounded(flop_per_s / 1e12, 3))} TFLOP a second",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )
    columns = ["batch", "mode", "bytes read", "ms", "at least, ms", "share of the limit"]
    return replace(figure, table=Table(columns, rows))


def _row(work: DecodeWork, cost: PhaseCost, taken: float, bytes_per_s: float, flop_per_s: float) -> list:
    batch, least = cost.request.batch, least_ms(work, cost.request.batch, bytes_per_s, flop_per_s)
    share = f"{100 * least / taken:.0f} %"
    return [batch, cost.mode, with_unit(work.nbytes(batch)), number(taken), number(least), share]


def turning(work: DecodeWork, bytes_per_s: float, flop_per_s: float) -> str:
    """In a sentence: from which batch on arithmetic bounds a step; or why none does, and with which cache one would."""
    batch = turning_batch(work, bytes_per_s, flop_per_s)
    if batch is not None:
        return f"From a batch of {batch:,} on, computing takes longer than reading."
    ridge, most = flop_per_s / bytes_per_s, most_slots(work, bytes_per_s, flop_per_s)
    return (
        f"At any batch, reading takes longer than computing: with {work.slots:,} slots a sequence there are at most "
        f"{work.most_intensity:.3g} operations a byte, and this machine does {ridge:.3g} operations while it moves one "
        f"byte. With at most {most:,} slots a large batch would be bound by arithmetic."
    )
