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
    done = [(row, rates) for row in rows if (rates := row.rates)]
    if not done:
        raise ValueError("nothing to draw: no way came to an end with any number of threads")
    series = []
    for count in dict.fromkeys(row.threads for row in rows):
        own = [(row.way, rates) for row, rates in done if row.threads == count]
        values = [[rates[at] for _, rates in own] for at in range(3)]
        if own:
            series.append(Series(_threads(count), [way for way, _ in own], *values))
    best, (most, least, _) = max(done, key=lambda each: each[1][0])
    level = [f"{row.way} with {_threads(row.threads)}" for row, (*_, high) in done if row is best or high >= least]
    failed = [f"{row.way}, {_threads(row.threads)}: {row.error}" for row in rows if row.error]
    wrong = [f"{row.way}, {_threads(row.threads)}: an answer is wrong" for row, _ in done if not row.same]
    same = {True: "the same", False: "wrong", None: None}
    table = [
        (r.way, r.threads, with_quartiles(*r.rates) if r.rates else r.error, same[r.same], r.compiled_again)
        for r in rows
    ]
    columns = ["way", "threads", "calls/s (quartiles)", "answers", "compiled again"]
    return bars(
        series,
        value_title="calls of all threads together, calls/s",
        title=f"At most {most:,.0f} calls/s: {' and '.join(level)}{', not told apart' * (len(level) > 1)}.",
        caption="; ".join([*wrong, *failed]),
        provenance=provenance,
        table=Table(columns, table),
    )


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
