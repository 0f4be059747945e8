"""Named rows on one axis: segments (bars, stacks, intervals, timelines) and dots."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...doors import door
from ..figures import Drawing, Series
from ..tables import Table
from .common import Axis, References, Scale, Sheet, attribute, joined, short, with_unit

SHAPES = ("●", "■", "◆", "▲", "✚", "▼", "★")
FITS = (2, 4, 6, 9, 13, 18, 24, 32)
"""Letters: `marks.css` shows words of at most so many from the width on that holds them."""
LONG = 12
"""Letters from which on, on a phone, what stands behind a row goes beside its name."""


@dataclass(frozen=True)
class Segment:
    """A part of a row: `value` long, from `start` or from where the one before ends.

    `words` stand in it where they fit (by default its value, if the row has several parts), `title` shows on hovering.
    `faint` is a quarter as strong.
    """

    series: str
    value: float
    start: float | None = None
    words: str | None = None
    title: str = ""
    faint: bool = False


@dataclass(frozen=True)
class Row:
    """A named row: `parts` are values by series, or `Segment`s.

    `after` stands behind the row in place of its sum; a new `group` opens a heading. By series, `spreads` are the ends
    of a value's spread, drawn as a thin line, and `marks` are further values, drawn as ticks. `thin` is a low row.
    """

    name: str
    parts: Mapping[str, float | None] | Sequence[Segment]
    after: str | None = None
    group: str = ""
    strong: bool = False
    code: bool = False
    thin: bool = False
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return joined(self.group, self.name)

    def segments(self) -> list[Segment]:
        if not isinstance(self.parts, Mapping):
            return list(self.parts)
        return [Segment(series, value) for series, value in self.parts.items() if value is not None]

    def sums(self) -> dict[str, float]:
        """The value of each series: that of its segments together."""
        found: dict[str, float] = {}
        for part in self.segments():
            found[part.series] = found.get(part.series, 0) + part.value
        return found

    def with_starts(self) -> Iterator[tuple[float, Segment]]:
        """Each segment with its start: its own, or the end of the one before."""
        end = 0.0
        for part in self.segments():
            start = end if part.start is None else part.start
            end = start + part.value
            yield start, part

    def other_values(self) -> list[float]:
        """What else the axis has to hold."""
        return [*self.marks.values(), *(end for ends in self.spreads.values() for end in ends)]


@door
def segments(
    rows: Sequence[Row],
    axis: Axis | None = None,
    *,
    title: str,
    caption: str = "",
    colours: Mapping[str, str] | None = None,
    references: References | None = None,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Rows of segments on one axis: bars, stacks, intervals, timelines.

    `colours` are names of the palette by series, in the order of the legend. `references` are dashed lines through all
    rows: {words of the legend: (value, colour)}. Raises ValueError without rows or a title, for a series without a
    colour and for a value off the axis.

    >>> from compile_lab.page.marks import Axis, Row, segments
    >>> rows = [Row("eager", {"forward": 3.0, "backward": 6.1}), Row("compiled", {"forward": 2.0, "backward": 3.9})]
    >>> picture = segments(rows, Axis("a step", "ms"), title="Compiled, the step takes 5.9 ms instead of 9.1.")
    >>> picture.table
    a step, ms  forward  backward
    ──────────  ───────  ────────
    eager             3       6.1
    compiled          2       3.9
    >>> picture.alt[48:]
    'eager: forward 3.0, backward 6.1, in all 9.1 ms; compiled: forward 2.0, backward 3.9, in all 5.9 ms.'
    """
    if not rows:
        raise ValueError("there are no rows to draw")
    axis, sheet = axis or Axis(), Sheet(title, caption, colours, references or {}, provenance, table)
    hues = sheet.hues(
        [*(part.series for row in rows for part in row.segments()), *(n for row in rows for n in row.marks)]
    )
    ends = [end for row in rows for start, part in row.with_starts() for end in (start, start + part.value)]
    scale = _scale(axis, rows, ends, sheet)
    lanes = []
    for row in rows:
        several = len(row.segments()) > 1
        bits = [_segment(start, part, hues, scale, axis.unit, several) for start, part in row.with_starts()]
        bits += [f"<i class='m-tick m-{hues[name]}' style='left:{scale.at(at)}'></i>" for name, at in row.marks.items()]
        after = with_unit(sum(row.sums().values()), axis.unit) if row.after is None else row.after
        last = max([*(start + part.value for start, part in row.with_starts()), *row.other_values()], default=scale.low)
        lanes.append(_Lane(row, bits, after, last, "m-bar" + " m-thin" * row.thin))
    return _stacked(lanes, scale, axis, sheet, hues)


@door
def dots(
    places: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str,
    title: str,
    caption: str = "",
    provenance: object | None = None,
    until: float | None = None,
    table: Table | None = None,
    colours: Mapping[str, str] | None = None,
    references: References | None = None,
) -> Drawing:
    """A row for each place, a dot in it for each of up to seven series, on one axis from 0 in `unit`.

    A series has a value for each place, None where there is none. The axis ends at the round number above the largest,
    or at `until`, so that pictures compare. Raises ValueError for no series or too many, for one that has not a value
    for each place, and for a value off the axis.

    >>> from compile_lab.page import dots
    >>> shares = {"compute": [70, 55], "wait": [30, 45]}
    >>> dots(["DDP", "FSDP"], shares, unit="%", title="FSDP waits longer than DDP.").table
    %     compute  wait
    ────  ───────  ────
    DDP        70    30
    FSDP       55    45
    """
    for name, values in series.items():
        if len(values) != len(places):
            raise ValueError(f"series {name!r} has {len(values)} values for {len(places)} places: give one for each")
    rows = [Row(place, {name: values[at] for name, values in series.items()}) for at, place in enumerate(places)]
    if not 1 <= len(series) <= len(SHAPES):
        raise ValueError(f"{len(series)} series: give 1 to {len(SHAPES)}, each has a mark of its own")
    sheet = Sheet(title, caption, colours, references or {}, provenance, table)
    return _dotted(rows, Axis(unit=unit, until=until), sheet)


@door
def dotted(
    rows: Sequence[Row],
    axis: Axis,
    *,
    title: str,
    caption: str = "",
    colours: Mapping[str, str] | None = None,
    references: References | None = None,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """`dots` of rows with groups, spreads, words behind them, or on a logarithmic axis; as `segments` otherwise.

    >>> from compile_lab.page.marks import Axis, Row, dotted
    >>> rows = [Row("addmm", {"predicted": 90.0, "measured": 140.0}, group="GPT-2")]
    >>> dotted(rows, Axis("a call", "µs", log=True), title="The matmul takes longer than predicted.").alt
    'The matmul takes longer than predicted. GPT-2, addmm: predicted 90, measured 140 µs.'
    """
    return _dotted(rows, axis, Sheet(title, caption, colours, references or {}, provenance, table))


def _dotted(rows: Sequence[Row], axis: Axis, sheet: Sheet) -> Drawing:
    hues = sheet.hues(part.series for row in rows for part in row.segments())
    shapes = dict(zip(hues, SHAPES, strict=False))
    scale = _scale(axis, rows, [value for row in rows for value in row.sums().values()], sheet)
    lanes = []
    for row in rows:
        values = row.sums()
        low, high = (end(values.values(), default=scale.low) for end in (min, max))
        bits = [f"<i class='m-span' style='left:{scale.at(low)};width:{scale.wide(low, high)}'></i>"]
        for name, value in values.items():
            hover, look = attribute(f"{name}: {with_unit(value, axis.unit)}"), f"m-dot m-sign-{hues[name]}"
            bits.append(f"<b class='{look}' style='left:{scale.at(value)}' title='{hover}'>{shapes[name]}</b>")
        after = row.after if row.after is not None else _labelled(row, axis.unit, shapes)
        lanes.append(_Lane(row, bits, after, max([high, *row.other_values()]), "m-dots"))
    return _stacked(lanes, scale, axis, sheet, hues, SHAPES)


def _labelled(row: Row, unit: str, shapes: Mapping[str, str]) -> str:
    """The largest value stands behind a row of dots; where one alone has a spread, it was measured, and stands there,
    with its dot if it is not the largest."""
    values = row.sums()
    if not values:
        return "–"
    largest = max(values, key=values.__getitem__)
    measured = [name for name in values if name in row.spreads]
    name = measured[0] if len(measured) == 1 else largest
    return f"{shapes[name]} " * (name != largest) + with_unit(values[name], unit)


@door
def bars(
    series: Series | Sequence[Series],
    *,
    value_title: str,
    title: str,
    caption: str = "",
    place_title: str = "",
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Values of a few things with their spread where known: a bar each, or dots for several series.

    `value_title` names the quantity and its unit ("a step, ms"), `place_title` what the rows stand for.

    >>> from compile_lab.page import Series, bars
    >>> eager = Series("eager", ["forward", "backward"], [1.2, 2.5], low=[1.1, 2.4], high=[1.3, 2.7])
    >>> bars(eager, value_title="time, ms", place_title="pass", title="The backward takes twice as long.").table
    pass      time, ms
    ────────  ────────────────
    forward   1.2 (1.1 to 1.3)
    backward  2.5 (2.4 to 2.7)
    """
    many = [series] if isinstance(series, Series) else list(series)
    if not many:
        raise ValueError("nothing to draw: give at least one Series")
    quantity, _, unit = value_title.rpartition(", ")
    rows, places = [], list(dict.fromkeys(place for one in many for place in one.at))
    for place in places:
        here = {one.name: one.ends(place) for one in many if place in one.at}
        spreads = {name: (low, high) for name, (low, _, high) in here.items() if low < high}
        rows.append(Row(str(place), {name: value for name, (_, value, _) in here.items()}, spreads=spreads))
    columns = [value_title] if len(many) == 1 else [f"{one.name}: {value_title}" for one in many]
    own = Table([place_title, *columns], [[place, *(one.cell(place) for one in many)] for place in places])
    axis = Axis(quantity or unit, unit if quantity else "")
    draw = segments if len(many) == 1 else dotted
    return draw(rows, axis, title=title, caption=caption, provenance=provenance, table=table or own)


@dataclass(frozen=True)
class _Lane:
    """A row as it is drawn: its parts, and what stands behind the last of them."""

    row: Row
    bits: list[str]
    after: str
    last: float
    kind: str


def _scale(axis: Axis, rows: Sequence[Row], values: Sequence[float], sheet: Sheet) -> Scale:
    beside = [value for row in rows for value in row.other_values()]
    return axis.scale([*values, *beside, *(at for at, _ in sheet.references.values())])


def _stacked(
    lanes: Sequence[_Lane],
    scale: Scale,
    axis: Axis,
    sheet: Sheet,
    hues: Mapping[str, str],
    shapes: Sequence[str] = (),
) -> Drawing:
    """Named lanes one under the other, and the axis below them."""
    longest = max(len(lane.after) for lane in lanes)
    through = "".join(
        f"<i class='m-ref m-ink-{colour}' style='left:{scale.at(at)}'></i>" for at, colour in sheet.references.values()
    )
    made, group = [], ""
    for lane in lanes:
        row = lane.row
        made += [f"<div class='m-group'>{html.escape(row.group)}</div>"] * (row.group != group)
        group = row.group
        look = "m-name" + " m-strong" * row.strong + " m-code" * row.code + " m-thin" * row.thin
        name = html.escape(row.name) + f" <small>{html.escape(lane.after)}</small>" * (longest > LONG)
        end = f"<em style='left:{scale.at(lane.last)}'>{html.escape(lane.after)}</em>" if lane.after else ""
        spreads = [
            f"<i class='m-spread' style='left:{scale.at(low)};width:{scale.wide(low, high)}'></i>"
            for low, high in row.spreads.values()
        ]
        under, over = ([], spreads) if lane.kind.startswith("m-bar") else (spreads, [])
        track = "".join([through, *under, *lane.bits, *over, end])
        made.append(
            f"<div class='{look}'>{name}</div><div class='m-track'><div class='{lane.kind}'>{track}</div></div>"
        )
    made.append(f"<div class='m-name m-axisname'>{html.escape(axis.title)}</div>")
    ticks = f"<div class='m-track m-axis'><div>{scale.ticks_html(axis.unit, 'left')}</div></div>"
    made += [ticks] * bool(scale.ticks)
    look = "m-rows" + " m-long" * (longest > LONG)
    body = f"<div class='{look}' style='--after:{0.52 * longest + 0.5:.1f}rem'>{''.join(made)}</div>"
    said = [_row_text(lane.row, axis, len(hues) > 1, in_all=not shapes) for lane in lanes]
    said += [f"{name}: {with_unit(at, axis.unit)}" for name, (at, _) in sheet.references.items()]
    return sheet.drawing(body, said, _table([lane.row for lane in lanes], axis, list(hues)), hues, shapes)


def _segment(start: float, part: Segment, hues: Mapping[str, str], scale: Scale, unit: str, several: bool) -> str:
    words = short(part.value) * several if part.words is None else part.words
    fits = next((most for most in FITS if len(words) <= most), None)
    inside = f"<b class='m-w{fits}'>{html.escape(words)}</b>" if words and fits else ""
    hover = attribute(part.title or f"{part.series}: {with_unit(part.value, unit)}")
    place = f"left:{scale.at(start)};width:{scale.wide(start, start + part.value)}"
    look = f"m-seg m-{hues[part.series]}{' m-faint' * part.faint}"
    return f"<span class='{look}' style='{place}' title='{hover}'>{inside}</span>"


def _row_text(row: Row, axis: Axis, named: bool, in_all: bool) -> str:
    sums = row.sums()
    parts = [f"{name} {short(value)}" if named else short(value) for name, value in [*sums.items(), *row.marks.items()]]
    if in_all and row.after is None and len(sums) > 1:
        parts.append(f"in all {short(sum(sums.values()))}")
    return f"{row.full_name}: {with_unit(joined(*parts), axis.unit)}" + f" ({row.after})" * bool(row.after)


def _table(rows: Sequence[Row], axis: Axis, names: Sequence[str]) -> Table:
    behind = any(row.after for row in rows)
    listed = []
    for row in rows:
        known = {**row.sums(), **row.marks}
        values = [float(f"{known[name]:.3g}") if name in known else None for name in names]
        listed.append([row.full_name, *values, *[row.after or ""] * behind])
    return Table([axis.head, *names, *[""] * behind], listed, align="l" + "r" * len(names) + "l" * behind)
