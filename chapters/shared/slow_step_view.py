"""The book's thread: one slow training step, and how far a chapter takes it on its way to chapter 24."""

from collections.abc import Mapping
from typing import Any

from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, segments
from compile_lab.page.units import percent, with_quartiles

from .capstone_limits import DATA_SHEET, tokens, utilisation
from .capstone_view import distinct, rungs

Result = Mapping[str, Any]
Rung = Mapping[str, Any]


def start(result: Result) -> str:
    """What the first rung takes, in words: milliseconds, tokens a second, and the share of the data sheet's rate."""
    row = next(iter(rungs(result).values()))
    return (
        f"**{row['median_ms']:.0f} ms** a step, {1e3 * tokens(result) / row['median_ms']:,.0f} tokens/s, "
        f"an MFU of {percent(utilisation(result, row, DATA_SHEET))}"
    )


def text(result: Result, *names: str) -> str:
    """In words: the milliseconds from the rung before the first of these to the last of them. Raises as `way` does."""
    climbed = rungs(result)
    before = _before(climbed, names)
    steps = " → ".join(f"{name} {climbed[name]['median_ms']:.1f} ms" for name in (before, *names))
    return f"{steps}; {_speed_change(climbed[before], climbed[names[-1]])}"


def way(result: Result, *names: str, provenance: object | None = None) -> Drawing:
    """A bar for each of these rungs, after one for the rung before the first of them.

    KeyError for a name that is no rung, ValueError without names or for the first rung, which nothing comes before.
    """
    climbed = rungs(result)
    shown = {name: climbed[name] for name in (_before(climbed, names), *names)}
    return segments(
        [
            Row(name, {"a step": row["median_ms"]}, spreads={"a step": (row["low_ms"], row["high_ms"])})
            for name, row in shown.items()
        ],
        Axis("a step", "ms"),
        title=f"The slow step: {text(result, *names)}.",
        provenance=provenance,
    )


def _before(climbed: Mapping[str, Rung], names: tuple[str, ...]) -> str:
    if not names:
        raise ValueError(f"no rung is named; name some of {', '.join(climbed)}")
    for name in names:
        if name not in climbed:
            raise KeyError(f"{name!r} is no rung of this recording; there are {', '.join(climbed)}")
    order = list(climbed)
    if names[0] == order[0]:
        raise ValueError(f"{order[0]} is where the ladder begins; name rungs after it")
    return order[order.index(names[0]) - 1]


def _speed_change(before: Rung, after: Rung) -> str:
    if not distinct(before, after):
        quartiles = (with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"]) for row in (before, after))
        return f"not told apart: {' and '.join(quartiles)}"
    ratio = before["median_ms"] / after["median_ms"]
    return f"{ratio:.3g}× as fast" if ratio > 1 else f"{1 / ratio:.3g}× as slow"
