"""Threads in a picture: calls a second beside what as many threads would give if none waited for another."""

from collections.abc import Sequence

from compile_lab.page.figures import Drawing, Series
from compile_lab.page.marks import bars
from compile_lab.page.tables import Table
from compile_lab.page.units import with_quartiles

from .threads import Throughput


def scaling(rows: Sequence[Throughput], provenance: object | None = None) -> Drawing:
    """Calls a second of all threads together, by way and number of threads; what failed is named in the caption.

    ValueError if nothing was measured.
    """
    done = [row for row in rows if row.per_s is not None]
    if not done:
        raise ValueError("nothing to draw: no way came to an end with any number of threads")
    counts = list(dict.fromkeys(row.threads for row in rows))
    series = []
    for count in counts:
        own = [row for row in done if row.threads == count]
        values = [[getattr(row, name) for row in own] for name in ("per_s", "low", "high")]
        if own:
            series.append(Series(_threads(count), [row.way for row in own], *values))
    best = max(done, key=lambda row: row.per_s)
    level = [f"{row.way} with {_threads(row.threads)}" for row in done if row is best or row.high >= best.low]
    failed = [f"{row.way}, {_threads(row.threads)}: {row.error}" for row in rows if row.error]
    wrong = [f"{row.way}, {_threads(row.threads)}: an answer is wrong" for row in done if not row.same]
    table = [
        [
            row.way,
            row.threads,
            with_quartiles(row.per_s, row.low, row.high) if row.per_s is not None else row.error,
            {True: "the same", False: "wrong", None: None}[row.same],
            row.compiled_again,
        ]
        for row in rows
    ]
    columns = ["way", "threads", "calls/s (quartiles)", "answers", "compiled again"]
    return bars(
        series,
        value_title="calls of all threads together, calls/s",
        title=f"At most {best.per_s:,.0f} calls/s: {' and '.join(level)}{', not told apart' * (len(level) > 1)}.",
        caption="; ".join([*wrong, *failed]),
        provenance=provenance,
        table=Table(columns, table),
    )


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
