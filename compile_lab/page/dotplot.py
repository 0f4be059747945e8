"""Several quantities of a few things, as dots on one scale: what a table of shares shows at a glance."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from ..doors import door
from .canvas import Canvas, round_end, round_ticks
from .figures import PALETTE, Drawing
from .tables import Table

MARKS = (("blue", "●"), ("orange", "■"), ("green", "◆"), ("vermillion", "▲"))
_RIGHT, _ROW = 985, 28


@door
def dots(
    places: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str,
    alt: str,
    caption: str = "",
    provenance: object | None = None,
    until: float | None = None,
    table: Table | None = None,
) -> Drawing:
    """A row for each place, a dot in it for each of up to four series, on one axis from 0 in `unit`.

    A series has a value for each place, None where there is none. The axis ends at the round number above the largest,
    or at `until`, so that drawings compare. The `table` is the series' own unless another is given. Raises ValueError
    for no series or too many, for one that has not a value for each place, and for a value outside the axis.

    >>> from compile_lab.page import dots
    >>> shares = {"compute": [70, 55], "wait": [30, 45]}
    >>> dots(["DDP", "FSDP"], shares, unit="%", alt="FSDP waits longer than DDP.").table
          compute, %  wait, %
    ────  ──────────  ───────
    DDP           70       30
    FSDP          55       45
    """
    if not 1 <= len(series) <= len(MARKS):
        raise ValueError(f"{len(series)} series: give 1 to {len(MARKS)}, each has a mark of its own")
    for name, values in series.items():
        if len(values) != len(places):
            raise ValueError(f"series {name!r} has {len(values)} values for {len(places)} places: give one for each")
    known = [value for values in series.values() for value in values if value is not None] or [0.0]
    end = until or (round_end(max(known)) if max(known) > 0 else 1.0)
    if not 0 <= min(known) <= max(known) <= end:
        raise ValueError(f"values from {min(known):g} to {max(known):g} are not all on an axis from 0 to {end:g}")
    left = min(400.0, 16.0 * max(map(len, places)) + 12)  # as wide as the words are on a phone
    canvas, scale = Canvas(size=18), (_RIGHT - left) / end
    for row, place in enumerate(places):
        middle = _ROW * row + 16
        canvas.words(left - 14, middle + 6, place, anchor="end")
        canvas.line([(left, middle), (_RIGHT, middle)], "#8884", thick=1)
        found = [(values[row], mark) for values, mark in zip(series.values(), MARKS, strict=False)]
        shown = [(left + value * scale, mark) for value, mark in found if value is not None]
        for (before, _), (after, _) in pairwise(sorted(shown)):
            canvas.line([(before, middle), (after, middle)], "grey", thick=3)
        for x, (colour, mark) in shown:
            canvas.words(x, middle + 7, mark, anchor="middle", size=20, colour=colour)
    canvas.axis(left, _ROW * len(places) + 4, _RIGHT - left, round_ticks(end, unit))
    legend = " &nbsp; ".join(
        f"<span style='white-space:nowrap'><b style='color:{PALETTE[colour]}'>{mark}</b> {escape(name)}</span>"
        for name, (colour, mark) in zip(series, MARKS, strict=False)
    )
    rows = [(place, *(_cell(values[row]) for values in series.values())) for row, place in enumerate(places)]
    own = Table(["", *(f"{name}, {unit}" for name in series)], rows, align="l" + "r" * len(series))
    return Drawing(canvas.svg(), alt, caption, table or own, provenance, legend)


def _cell(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
