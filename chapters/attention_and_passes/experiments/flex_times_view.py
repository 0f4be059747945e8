"""The recording of FlexAttention as pictures: time and memory against length, on logarithmic axes."""

from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.page.figures import Figure, Series, lines
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import with_quartiles, with_unit

Row = Mapping[str, Any]


def times(rows: Iterable[Row], part: str, provenance: object | None = None) -> Figure:
    """Milliseconds of a part ("forward", "step", "made") against length, a line a way, with quartiles."""
    return _drawn(rows, part, "ms", lambda row: [row[name] for name in ("median_ms", "low_ms", "high_ms")], provenance)


def growth(rows: Iterable[Row], part: str) -> dict[str, float]:
    """How many times as long each way takes when the length is doubled, from its last two lengths that are so.

    4 is what every pair costs, 2 what each token costs. A way without such lengths is left out. Where the quartiles of
    the two overlap nothing can be said, and it is left out too.
    """
    found = {}
    for way, of_way in _by_way(rows, part).items():
        by_length = {row["length"]: row for row in of_way}
        doubled = [(by_length[n // 2], by_length[n]) for n in by_length if n // 2 in by_length and n % 2 == 0]
        if doubled and doubled[-1][0]["high_ms"] < doubled[-1][1]["low_ms"]:
            found[way] = doubled[-1][1]["median_ms"] / doubled[-1][0]["median_ms"]
    return found


def table(rows: Iterable[Row], stopped: Iterable[Row]) -> Table:
    """One row a part, way and length; what was stopped has the reason in the place of figures."""
    cells: list[tuple[Cell, ...]] = [
        (
            row["part"],
            row["way"],
            row["length"],
            with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"]),
            with_unit(row["peak_nbytes"]),
            None if row["error"] is None else f"{row['error']:.1e}",
        )
        for row in rows
    ]
    cells += [(row["part"], row["way"], row["length"], row["stopped"], None, None) for row in stopped]
    caption = "made: the mask is made; error: the largest difference from float64, for up to 2,048 tokens"
    return Table(["part", "way", "tokens", "ms", "peak", "error"], cells, caption, align="llrrrr")


def _by_way(rows: Iterable[Row], part: str) -> dict[str, list[Row]]:
    """The rows of a part by way, each in the order of the lengths. ValueError without any."""
    chosen = sorted((row for row in rows if row["part"] == part), key=lambda row: row["length"])
    if not chosen:
        raise ValueError(f"no row of the part {part!r}: it is made, forward or step, and may have been stopped")
    return {way: [row for row in chosen if row["way"] == way] for way in dict.fromkeys(row["way"] for row in chosen)}


def _drawn(rows: Iterable[Row], part: str, unit: str, values: Any, provenance: object | None) -> Figure:
    series = []
    for way, of_way in _by_way(rows, part).items():
        columns = list(zip(*map(values, of_way), strict=True))
        series.append(Series(way, [row["length"] for row in of_way], *columns))
    longest = max(one.at[-1] for one in series)
    ends = sorted((one.values[-1], one.name) for one in series if one.at[-1] == longest)
    said = ", ".join(f"{name} {value:.3g} {unit}" for value, name in dict.fromkeys((ends[0], ends[-1])))
    return lines(
        series,
        x_title="tokens",
        y_title=unit,
        title=f"A {part} at {longest:,} tokens: {said}.",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )
