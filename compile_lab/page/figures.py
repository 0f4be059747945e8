"""Pictures that say in words, and in a table, what they show: plotly figures, and drawings that need no plotly.

A figure draws itself in JupyterLab, on Colab and on the book's site, and reads as text where nothing can draw.
Only scatter traces are made here; the site carries plotly's *basic* bundle.
"""

from __future__ import annotations

import base64
import html
import json
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..doors import door
from .tables import Cell, Table
from .ticks import ticks
from .units import with_quartiles

if TYPE_CHECKING:
    import plotly.graph_objects as go

PLOTLY = "application/vnd.plotly.v1+json"

# Okabe & Ito, Color Universal Design (2008): told apart with any colour vision. The site's style sheet uses the same.
PALETTE: dict[str, str] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "grey": "#7A7A7A",
}
# A second sign beside the colour, so that a line is told apart in black and white too. A bar's number tells it apart.
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")


@dataclass(frozen=True)
class Plot:
    """Traces and a layout as plotly.js reads them: what a `Figure` needs of plotly where plotly is not, in a page."""

    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]

    def to_plotly_json(self) -> dict[str, Any]:
        """In plotly's own order: by name, and a trace's type last."""
        traces = [_sorted({key: value for key, value in trace.items() if key != "type"}) for trace in self.data]
        typed = [{**trace, "type": given["type"]} for trace, given in zip(traces, self.data, strict=True)]
        return {"data": typed, "layout": _sorted(self.layout)}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value


class _Picture:
    """What a `Figure` and a `Drawing` share."""

    alt: str
    caption: str
    table: Table | None
    provenance: object | None

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"a {type(self).__name__} needs alt: one sentence that says what is to be seen in it")

    @property
    def full_caption(self) -> str:
        """The caption, and the provenance after it."""
        source = "" if self.provenance is None else str(self.provenance)
        return " · ".join(part for part in (self.caption, source) if part)

    def __repr__(self) -> str:
        return "\n".join(part for part in (f"Figure: {self.alt}", self.full_caption) if part)

    def _words(self) -> str:
        caption = f"<figcaption>{html.escape(self.full_caption)}</figcaption>\n" if self.full_caption else ""
        if self.table is None:
            return caption
        table = f"<details><summary>The same as a table</summary>{self.table._repr_html_()}</details>\n"
        return caption + table


@dataclass(frozen=True, repr=False)
class Figure(_Picture):
    """A plotly figure, the sentence that stands for it, its caption, its numbers, and where they come from.

    `plot` is a plotly figure or a `Plot`, `alt` says what is to be seen in it, `provenance` is anything that prints as
    one line.
    Raises ValueError without an `alt`: a picture alone leaves some readers with nothing.
    """

    plot: go.Figure | Plot
    alt: str
    caption: str = ""
    table: Table | None = None
    provenance: object | None = None
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        """The plot as plain JSON values: no template, numbers to six figures, lists where plotly packs arrays."""
        plot = _plain(self.plot.to_plotly_json())
        layout = {key: value for key, value in plot.get("layout", {}).items() if key != "template"}
        return {"data": plot.get("data", []), "layout": layout}

    def _repr_html_(self) -> str:
        plot = self.to_json()
        height = plot["layout"].get("height", 450)
        return (
            f'<figure class="lab-figure m-figure" style="--figure-height: {height:g}px">{_head(self.title)}\n'
            f'<div class="lab-plot" role="img" aria-label="{html.escape(self.alt)}">'
            f'<script type="{PLOTLY}">{script_json(plot)}</script></div>\n'
            f"{self._words()}</figure>"
        )

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
        if "COLAB_RELEASE_TAG" in os.environ:
            return {"text/html": self._colab_html(), "text/plain": repr(self)}
        bundle = {"text/html": self._repr_html_(), PLOTLY: self._titled_json(), "text/plain": repr(self)}
        return bundle, {PLOTLY: {"alt": self.alt}}

    def _titled_json(self) -> dict[str, Any]:
        """JupyterLab draws the plotly type alone, without the HTML: there the caption has to be in the plot."""
        plot = self.to_json()
        words = " ".join(part for part in (self.title, self.full_caption) if part)
        if not words or "title" in plot["layout"]:
            return plot
        wrapped = textwrap.wrap(words, width=100)
        extra = 18 * len(wrapped)
        margin = dict(plot["layout"].get("margin", {}))
        margin["t"] = margin.get("t", 40) + extra
        height = plot["layout"].get("height", 450) + extra
        title = {
            "text": "<br>".join(map(plot_text, wrapped)),
            "font": {"size": 13},
            "x": 0.01,
            "xanchor": "left",
            "y": 1 - 16 / height,  # clear of the edge, which cuts off what stands at it
            "yanchor": "top",
        }
        return {"data": plot["data"], "layout": {**plot["layout"], "title": title, "margin": margin, "height": height}}

    def _colab_html(self) -> str:
        # Colab puts each output in a frame of its own, where only plotly's own renderer brings plotly.js along.
        import plotly.io as pio

        drawn = pio.to_html(
            self.plot.to_plotly_json(), include_plotlyjs="cdn", full_html=False, config={"responsive": True}
        )
        shown = f"{_head(self.title)}{drawn}{self._words()}"
        return f'<figure class="lab-figure m-figure" aria-label="{html.escape(self.alt)}">{shown}</figure>'


@dataclass(frozen=True, repr=False)
class Drawing(_Picture):
    """A picture written as HTML or SVG: it needs no script, and weighs what it shows. The rest is as in a `Figure`.

    With a `title` it is one of `page.marks`: title and `legend` (plain HTML) stand over it. Without one `body` is an
    SVG element, drawn as wide as the page, its text in `currentColor` so that it follows the theme, and the legend
    stands under it. Raises ValueError without an `alt`.
    """

    body: str
    alt: str
    caption: str = ""
    table: Table | None = None
    provenance: object | None = None
    legend: str = ""
    title: str = ""

    def _repr_html_(self) -> str:
        picture = f'role="img" aria-label="{html.escape(self.alt)}">{self.body}</div>\n'
        if self.title:
            head = _head(self.title, self.legend)
            return f'<figure class="lab-figure m-figure">{head}<div class="m-body" {picture}{self._words()}</figure>'
        legend = f'<p class="lab-note">{self.legend}</p>\n' if self.legend else ""
        return f'<figure class="lab-figure"><div class="lab-drawing" {picture}{legend}{self._words()}</figure>'


@door
@dataclass(frozen=True)
class Series:
    """One set of marks: `values` over `at` (labels or numbers), and the two ends of each value's spread if known.

    `low` and `high` are in the unit of `values`, and enclose it. Raises ValueError where lengths or order disagree.

    >>> from compile_lab.page import Series
    >>> Series("eager", at=["forward", "backward"], values=[1.2, 2.5], low=[1.1, 2.6], high=[1.3, 2.7])
    Traceback (most recent call last):
        ...
    ValueError: series 'eager': of its values 2.5 is outside its spread 2.6 to 2.7
    """

    name: str
    at: Sequence[str | float]
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"series {self.name!r}: a spread needs both low and high")
        lengths = [len(part) for part in (self.at, self.values, self.low, self.high) if part is not None]
        if len(set(lengths)) != 1:
            raise ValueError(f"series {self.name!r}: at, values, low, high have lengths {lengths}")
        for low, value, high in zip(self.low or (), self.values, self.high or (), strict=False):
            if not low <= value <= high:
                raise ValueError(f"series {self.name!r}: of its values {value} is outside its spread {low} to {high}")

    def _error_bars(self) -> dict[str, Any] | None:
        if self.low is None or self.high is None:
            return None
        above = [high - value for high, value in zip(self.high, self.values, strict=True)]
        below = [value - low for low, value in zip(self.low, self.values, strict=True)]
        return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.2, "width": 4}

    def ends(self, place: str | float) -> tuple[float, float, float]:
        """The value at a place between the ends of its spread, which are the value itself where none is known."""
        index = list(self.at).index(place)
        return (self.low or self.values)[index], self.values[index], (self.high or self.values)[index]

    def cell(self, place: str | float) -> Cell:
        """The value at a place as a table shows it, with its spread if known; nothing where there is none."""
        if place not in self.at:
            return None
        low, value, high = self.ends(place)
        return value if self.low is None else with_quartiles(value, low, high)


@door
def lines(
    series: Series | Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    title: str,
    caption: str = "",
    provenance: object | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Lines with a mark at each measured point, and its spread where known; the numbers again as a table.

    `x_title` and `y_title` name quantity and unit, `title` says what is to be seen. Raises ValueError for a place that
    is not a number, or ≤ 0 on a log axis.

    >>> from compile_lab.page import Series, lines
    >>> shape = Series("eager", [1, 8, 64], [0.5, 0.6, 2.1])
    >>> lines(shape, x_title="batch", y_title="ms", title="Eight rows take hardly longer than one.", log_x=True)
    Figure: Eight rows take hardly longer than one.
    """
    import plotly.graph_objects as go

    many = _several(series)
    for one in many:
        for log, values in ((log_x, one.at), (log_y, one.values)):
            if any(isinstance(value, str) or (log and value <= 0) for value in values):
                raise ValueError(f"series {one.name!r}: lines need numbers, and a log axis positive ones")
    traces = [
        go.Scatter(
            name=plot_text(one.name),
            x=list(one.at),
            y=list(one.values),
            mode="lines+markers",
            line={"color": _colour(index), "dash": _DASHES[index % len(_DASHES)], "width": 2},
            marker={"symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 8},
            **({"error_y": ends} if (ends := one._error_bars()) else {}),
        )
        for index, one in enumerate(many)
    ]
    layout = _layout(len(many), height=360)
    layout["xaxis"] = {"title": {"text": plot_text(x_title)}, "type": "log" if log_x else "linear"}
    layout["yaxis"] = {"title": {"text": plot_text(y_title)}, "type": "log" if log_y else "linear"}
    places = (place for one in many for place in one.at if not isinstance(place, str))
    layout["xaxis"] |= ticks(places, measured=True) if log_x else {}
    layout["yaxis"] |= ticks(value for one in many for value in one.values) if log_y else {"rangemode": "tozero"}
    return Figure(go.Figure(traces, layout), title, caption, _table(many, x_title, y_title), provenance, title)


def plot_text(text: object) -> str:
    """Text as plotly shows it unchanged: it reads `<` as the start of a tag."""
    return html.escape(str(text), quote=False)


def script_json(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("</", "<\\/").replace("<!--", "<\\u0021--")


def _head(title: str, legend: str = "") -> str:
    """What stands over a picture: its sentence, and whose colours are in it."""
    sub = f'<p class="m-sub">{legend}</p>' if legend else ""
    return f'<p class="m-title">{html.escape(title)}</p>{sub}' if title else ""


def _several(series: Series | Sequence[Series]) -> list[Series]:
    many = [series] if isinstance(series, Series) else list(series)
    if not many:
        raise ValueError("nothing to draw: give at least one Series")
    return many


def _colour(index: int) -> str:
    return list(PALETTE.values())[index % len(PALETTE)]


def _table(many: Sequence[Series], place_title: str, value_title: str) -> Table:
    columns = [value_title] if len(many) == 1 else [f"{one.name}: {value_title}" for one in many]
    places = dict.fromkeys(place for one in many for place in one.at)
    return Table([place_title, *columns], [[place, *(one.cell(place) for one in many)] for place in places])


def _layout(count: int, height: int) -> dict[str, Any]:
    layout: dict[str, Any] = {"height": height, "margin": {"l": 60, "r": 20, "t": 20, "b": 50}}
    layout["showlegend"] = count > 1
    if count > 1:
        layout["legend"] = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
        layout["margin"]["t"] = 50
    return layout


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if "bdata" in value and "dtype" in value:
            return _plain(_unpacked(value))
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        # Six figures are more than a screen shows. JSON has no NaN: at null, plotly leaves a gap.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # a numpy array or scalar
        return _plain(value.tolist())
    return value


def _unpacked(packed: dict[str, Any]) -> Any:
    """Plotly 6 and later pack arrays as base64, which a reader of the page's source cannot read."""
    import numpy as np

    shape = [int(size) for size in str(packed.get("shape", "-1")).split(",")]
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]).reshape(shape)
