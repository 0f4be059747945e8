"""Lines over two axes."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from ...doors import door
from ..figures import Drawing
from ..tables import Table
from .common import Axis, References, Scale, Sheet, attribute, joined, short, tick_text, with_unit


@dataclass(frozen=True)
class Line:
    """A series of points (x, y), each with the ends of its spread in `spreads` if known.

    `label` stands at its end, after the series' name; `dots` marks each point, for what was measured there and nowhere
    else, `marked` are the points that are marked otherwise; `stepped`, a value holds until the next point.
    With `names` of its points it is a scatter: no line joins them, and each has its name on hovering.
    """

    series: str
    points: Sequence[tuple[float, float]]
    label: str = ""
    dashed: bool = False
    dots: bool = False
    spreads: Sequence[tuple[float, float]] = ()
    stepped: bool = False
    marked: Sequence[tuple[float, float]] = ()
    names: Sequence[str] = ()


@door
def lines(
    panels: Mapping[str, Sequence[Line]],
    x: Axis,
    y: Axis,
    *,
    title: str,
    caption: str = "",
    colours: Mapping[str, str] | None = None,
    references: References | None = None,
    area: bool = False,
    stacked: bool = False,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Lines over two axes: panels share them, stand side by side, and one under the other on a phone.

    `references` are level lines: {words: (value of y, colour)}. With `area` what is under a line is filled; `stacked`
    lines are filled layers, each upon those before it. The table has at most nine places of x, each line's own. Raises
    ValueError as `segments`, and for layers that are not all at the same places of x.

    >>> from compile_lab.page.marks import Axis, Line, lines
    >>> eager = Line("eager", [(1, 0.5), (8, 0.6), (64, 2.1)], dots=True)
    >>> lines({"": [eager]}, Axis("batch", log=True), Axis("a call", "ms"), title="Eight rows cost little more.").alt
    'Eight rows cost little more. eager from 0.5 at 1 to 2.1 ms at 64.'
    """
    sheet = Sheet(title, caption, colours, references or {}, provenance, table)
    many = [line for panel in panels.values() for line in panel]
    if not any(line.points for line in many):
        raise ValueError("the panels have no line with a point: there is nothing to draw")
    hues = sheet.hues(line.series for line in many)
    shown = {name: _layers(panel) for name, panel in panels.items()} if stacked else panels
    drawn_lines = [line for panel in shown.values() for line in panel]
    values = [value for line in drawn_lines for value in [*(value for _, value in line.points), *chain(*line.spreads)]]
    across = x.scale(place for line in many for place, _ in line.points)
    up = y.scale([*values, *(at for at, _ in sheet.references.values())])
    drawn = "".join(
        _Panel(name, lines_, x, y, across, up, hues, area, stacked).html(sheet) for name, lines_ in shown.items()
    )
    longest = max((len(f"{line.series} {line.label}") for line in many if not (stacked or line.names)), default=0)
    said = [
        f"{joined(name, line.series)} at most {with_unit(max(value for _, value in line.points), y.unit)}"
        if stacked
        else f"{joined(name, line.series)}: {len(line.points)} points"
        if line.names
        else f"{joined(name, line.series)} from {short(line.points[0][1])} at {tick_text(line.points[0][0])} to "
        f"{with_unit(line.points[-1][1], y.unit)} at {tick_text(line.points[-1][0])}"
        for name, panel in panels.items()
        for line in panel
        if line.points
    ]
    body = f"<div class='m-panels' style='--ends:{0.5 * min(longest, 26) + 0.6:.1f}rem'>{drawn}</div>"
    return sheet.drawing(body, said, _table(panels, x, y, across), hues)


@dataclass(frozen=True)
class _Panel:
    name: str
    lines: Sequence[Line]
    x: Axis
    y: Axis
    across: Scale
    up: Scale
    hues: Mapping[str, str]
    area: bool
    stacked: bool

    def html(self, sheet: Sheet) -> str:
        drawn = [line for line in self.lines if line.points]
        lined = [line for line in drawn if not line.names]
        paths = "".join(path for line in lined for path in self._paths(line))
        points = "".join(point for line in drawn for point in self._points(line))
        level = "".join(
            f"<i class='m-refy m-ink-{colour}' style='bottom:{self.up.at(at)}'></i>"
            for at, colour in sheet.references.values()
        )
        labels = "".join(
            f"<div style='top:{top:.1f}%'>{text}</div>"
            for top, text in _apart(map(self._end, [] if self.stacked else lined))
        )
        head = f"<p class='m-ptitle'>{html.escape(self.name)}</p>" if self.name else ""
        foot = f"<div class='m-foot'>{self.across.ticks_html(self.x.unit, 'left')}</div>"
        return (
            f"<div class='m-panel'>{head}<p class='m-ytitle'>↑ {html.escape(self.y.title)}</p><div class='m-plot'>"
            f"<div class='m-grid'>{self.up.ticks_html(self.y.unit, 'bottom')}</div><svg viewBox='0 0 100 100' "
            f"preserveAspectRatio='none' aria-hidden='true'>{paths}</svg>{points}{level}"
            f"<div class='m-ends'>{labels}</div>{foot}</div>"
            f"<p class='m-xtitle'>{html.escape(self.x.title)} →</p></div>"
        )

    def _at(self, place: float, value: float) -> tuple[str, str]:
        """In per cent of the plot, from its left and from its top."""
        return f"{100 * self.across.share(place):.4g}", f"{self._down(value):.4g}"

    def _down(self, value: float) -> float:
        return 100 - 100 * self.up.share(value)

    def _paths(self, line: Line) -> Iterator[str]:
        hue, shares = self.hues[line.series], [self._at(*point) for point in line.points]
        path = _steps(shares) if line.stepped else "M" + "L".join(f"{left} {top}" for left, top in shares)
        if self.area or self.stacked:
            floor, look = f"{self._down(max(0.0, self.up.low)):.4g}", "m-area" + " m-solid" * self.stacked
            yield f"<path class='{look} m-fill-{hue}' d='{path}L{shares[-1][0]} {floor}L{shares[0][0]} {floor}z'/>"
        if self.stacked:
            return
        yield f"<path class='m-line m-stroke-{hue}{' m-dash' * line.dashed}' d='{path}'/>"
        for (left, _), ends in zip(shares, line.spreads, strict=False):
            low, high = map(self._down, ends)
            yield f"<path class='m-line m-stroke-{hue}' d='M{left} {low:.4g}V{high:.4g}'/>"

    def _points(self, line: Line) -> Iterator[str]:
        points = line.points if line.dots or line.names else line.marked
        for (place, value), name in zip_longest(points, line.names):
            left, top = self._at(place, value)
            hover = attribute(name or f"{line.series}: {with_unit(value, self.y.unit)} at {tick_text(place)}")
            look = f"m-point m-{self.hues[line.series]}"
            yield f"<i class='{look}' style='left:{left}%;top:{top}%' title='{hover}'></i>"

    def _end(self, line: Line) -> tuple[float, str]:
        words = f"<b>{html.escape(line.series)} </b>{html.escape(line.label)}"
        return self._down(line.points[-1][1]), f"<span class='m-ink-{self.hues[line.series]}'>{words}</span>"


def _layers(panel: Sequence[Line]) -> list[Line]:
    """Each line raised by those before it, the highest first: each hides what is under it."""
    raised: list[Line] = []
    for line in panel:
        if raised and [place for place, _ in line.points] != [place for place, _ in raised[0].points]:
            raise ValueError(f"layer {line.series!r} is not at the places of x of the one below it")
        below = [value for _, value in raised[0].points] if raised else [0.0] * len(line.points)
        points = [(place, value + low) for (place, value), low in zip(line.points, below, strict=True)]
        raised.insert(0, replace(line, points=points))
    return raised


def _steps(shares: Sequence[tuple[str, str]]) -> str:
    """A path that goes right, then up or down, and only where the value changes."""
    path, at = f"M{shares[0][0]} {shares[0][1]}", shares[0][1]
    for left, top in shares:
        path, at = (path, at) if top == at else (f"{path}H{left}V{top}", top)
    return f"{path}H{shares[-1][0]}"


def _apart(ends: Iterable[tuple[float, str]], gap: float = 9.0) -> list[tuple[float, str]]:
    """Labels at the ends of lines, in per cent from the top, moved so that none covers another."""
    placed = sorted(ends)
    for at in range(1, len(placed)):
        placed[at] = max(placed[at][0], placed[at - 1][0] + gap), placed[at][1]
    bottom = 98.0
    for at in reversed(range(len(placed))):
        placed[at] = min(placed[at][0], bottom), placed[at][1]
        bottom = placed[at][0] - gap
    return placed


def _table(panels: Mapping[str, Sequence[Line]], x: Axis, y: Axis, across: Scale) -> Table:
    """Each line's values at nine places at the most: the ends, and those nearest to the axis's ticks."""
    rows, names = [], list(dict.fromkeys(line.series for panel in panels.values() for line in panel))
    for name, panel in panels.items():
        found = {line.series: dict(line.points) for line in panel}
        places = sorted({place for points in found.values() for place in points})
        if len(places) > 9:
            near = (min(places, key=lambda place: abs(place - tick)) for tick in across.ticks)
            places = sorted({places[0], *near, places[-1]})
        for place in places:
            values = [found.get(series, {}).get(place) for series in names]
            shown = [None if value is None else float(f"{value:.3g}") for value in values]
            rows.append([*[name] * (len(panels) > 1), with_unit(tick_text(place), x.unit), *shown])
    head = [*[""] * (len(panels) > 1), x.title, *(joined(series, y.unit) for series in names)]
    return Table(head, rows, align="l" * (len(head) - len(names)) + "r" * len(names))
