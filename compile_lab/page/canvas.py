"""A picture in the making: boxes, words, lines and arrows, gathered into one SVG element for a `Drawing`.

Coordinates are those of the picture, which is `WIDTH` wide and drawn as wide as the page: x to the right, y downwards.
Words outside boxes are in `currentColor`, so that they follow the theme; words in a box take black or white, whichever
is read better on its colour.
"""

import html
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..doors import door
from .figures import PALETTE

WIDTH = 1000
INK = "currentColor"
DIGIT = 0.56
"""The width of a letter, in sizes of its font: enough to say what fits."""


@door
class Canvas:
    """A picture `width` wide whose height is what is drawn on it.

    Colours are names of the palette, "ink" for what follows the theme, "none", or any CSS colour. Raises ValueError for
    a width that is none.

    >>> from compile_lab.page import Canvas
    >>> canvas = Canvas(width=200)
    >>> canvas.box(0, 0, 200, 40, "blue", "forward")
    >>> canvas.svg()[:25]
    "<svg viewBox='0 0 200 44'"
    """

    def __init__(self, width: float = WIDTH, size: float = 18) -> None:
        if not width > 0:
            raise ValueError(f"width={width}: a picture is wider than 0")
        self.width, self.size = width, size
        self._parts: list[str] = []
        self._bottom = 0.0

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = "grey",
        words: str = "",
        *,
        title: str = "",
        faint: bool = False,
        dashed: bool = False,
        size: float | None = None,
    ) -> None:
        """A rectangle, `words` in its middle if they fit (else only its `title`, which shows on hovering, has them).

        `faint` fills it a quarter as strongly, and its words follow the theme; `dashed` draws its edge alone.
        """
        size = size or self.size
        fill = "none" if dashed else _colour(colour)
        edge = f" stroke='{_colour(colour)}' stroke-width='2' stroke-dasharray='6 4'" if dashed else ""
        thin = " fill-opacity='.25'" if faint and not dashed else ""
        told = html.escape(title or words)
        body = f"<title>{told}</title>" if told else ""
        self._parts.append(
            f"<rect x='{_at(x)}' y='{_at(y)}' width='{_at(width)}' height='{_at(height)}' rx='3' "
            f"fill='{fill}'{edge}{thin}>{body}</rect>"
        )
        lines = words.split("\n") if words else []
        fits = lines and max(map(len, lines)) * DIGIT * size <= width and len(lines) * 1.2 * size <= height + 1
        if fits:
            top = y + height / 2 + 0.35 * size - 0.6 * size * (len(lines) - 1)
            colour = INK if faint or dashed else _on(fill)
            for index, line in enumerate(lines):
                self.words(x + width / 2, top + 1.2 * size * index, line, anchor="middle", size=size, colour=colour)
        self._reaches(y + height)

    def bars(self, y: float, height: float, spans: Sequence[tuple[float, float]], colour: str = "grey") -> None:
        """Many plain boxes in one row, as (left, width): one shape, which weighs little."""
        paths = "".join(f"M{_at(left)} {_at(y)}h{_at(width)}v{_at(height)}h-{_at(width)}z" for left, width in spans)
        self._parts.append(f"<path d='{paths}' fill='{_colour(colour)}'/>" if paths else "")
        self._reaches(y + height)

    @contextmanager
    def block(self, row: int, at: int) -> Iterator[None]:
        """What is drawn within is one block of an explorer's `Rows`: number `at` of `row`, both from 0.

        Its first title says what it is; the page's script lets the reader move it.
        """
        self._parts.append(f"<g data-block='{row} {at}'>")
        yield
        self._parts.append("</g>")

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        size: float | None = None,
        bold: bool = False,
        colour: str = "ink",
    ) -> None:
        """A line of text whose baseline is `y`. No letter smaller than 15: a page shows a canvas 900 px wide."""
        weight = " font-weight='650'" if bold else ""
        fill = "" if colour in ("ink", INK) else f" fill='{_colour(colour)}'"
        height = f" font-size='{_at(size)}'" if size and size != self.size else ""
        place = f" text-anchor='{anchor}'" if anchor != "start" else ""
        self._parts.append(f"<text x='{_at(x)}' y='{_at(y)}'{place}{height}{weight}{fill}>{html.escape(text)}</text>")
        self._reaches(y + 0.3 * (size or self.size))

    def line(
        self,
        points: Sequence[tuple[float, float]],
        colour: str = "ink",
        *,
        thick: float = 2,
        dashed: bool = False,
        arrow: bool = False,
    ) -> None:
        """A line through `points`, with an arrow's head at its end if `arrow`."""
        path = "M" + "L".join(f"{_at(x)} {_at(y)}" for x, y in points)
        dash = " stroke-dasharray='6 5'" if dashed else ""
        paint = _colour(colour)
        self._parts.append(f"<path d='{path}' fill='none' stroke='{paint}' stroke-width='{_at(thick)}'{dash}/>")
        if arrow:
            self._head(points[-2], points[-1], paint, 4 + 2.5 * thick)
        self._reaches(max(y for _, y in points) + thick)

    def area(self, points: Sequence[tuple[float, float]], colour: str = "grey", *, title: str = "") -> None:
        """What `points` go round, filled; its `title` shows on hovering."""
        body = f"<title>{html.escape(title)}</title>" if title else ""
        path = "M" + "L".join(f"{_at(x)} {_at(y)}" for x, y in points) + "z"
        self._parts.append(f"<path d='{path}' fill='{_colour(colour)}'>{body}</path>")
        self._reaches(max(y for _, y in points))

    def _head(self, start: tuple[float, float], end: tuple[float, float], paint: str, size: float) -> None:
        across, down = end[0] - start[0], end[1] - start[1]
        length = (across**2 + down**2) ** 0.5 or 1
        ux, uy = across / length * size, down / length * size
        left = (end[0] - ux - uy / 2, end[1] - uy + ux / 2)
        right = (end[0] - ux + uy / 2, end[1] - uy - ux / 2)
        corners = "L".join(f"{_at(x)} {_at(y)}" for x, y in (end, left, right))
        self._parts.append(f"<path d='M{corners}z' fill='{paint}'/>")

    def axis(self, x: float, y: float, width: float, ticks: Sequence[tuple[float, str]], name: str = "") -> None:
        """A scale below a picture: `ticks` are (share of the width, label); its `name` stands under it, at its end."""
        self.line([(x, y), (x + width, y)])
        for share, text in ticks:
            self.line([(x + share * width, y), (x + share * width, y + 7)])
            self.words(x + share * width, y + 11 + self.size, text, anchor="middle" if share < 0.98 else "end")
        if name:
            self.words(x + width, y + 14 + 2.2 * self.size, name, anchor="end")

    def svg(self) -> str:
        """The element, for a `Drawing`: single quotes only, because an explorer's JSON escapes the others."""
        return (
            f"<svg viewBox='0 0 {_at(self.width)} {_at(self._bottom + 4)}' font-size='{_at(self.size)}' "
            f"fill='currentColor' xmlns='http://www.w3.org/2000/svg'>{''.join(self._parts)}</svg>"
        )

    def _reaches(self, y: float) -> None:
        self._bottom = max(self._bottom, y)


def key(names: dict[str, str]) -> str:
    """A legend for a `Drawing`: each name after a square of its colour."""
    return " &nbsp; ".join(
        f"<span style='white-space:nowrap'><span style='color:{_colour(colour)}'>■</span> {html.escape(name)}</span>"
        for name, colour in names.items()
    )


def round_ticks(until: float, unit: str = "", most: int = 6) -> list[tuple[float, str]]:
    """Round places for `Canvas.axis` from 0 on, at most so many steps; `until` itself closes them, with the unit.

    A place too close to the end for both labels is left out. Raises ValueError for an axis that ends at 0 or below.
    """
    if not until > 0:
        raise ValueError(f"until={until}: an axis ends above 0")
    power = 10.0 ** math.floor(math.log10(until / most))
    step = next(step * power for step in (1, 2, 5, 10, 20) if step * power * most >= until * (1 - 1e-9))
    end = f"{float(f'{until:.3g}'):g} {unit}".strip()
    free = until * min(0.88, 0.97 - 0.012 * len(end))  # of an axis as narrow as any here
    places = [at * step for at in range(most + 1) if at * step < free]
    return [*((at / until, f"{at:.6g}") for at in places), (1.0, end)]


def round_end(most: float) -> float:
    """The first round number at or above `most`, where an axis that begins at 0 may end; a tick of `round_ticks`."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(end * power for end in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if end * power >= most * (1 - 1e-9))


def _colour(name: str) -> str:
    return INK if name == "ink" else PALETTE.get(name, name)


def _on(fill: str) -> str:
    """Black or white, by the luminance of what it stands on."""
    if not fill.startswith("#") or len(fill) != 7:
        return INK
    red, green, blue = (int(fill[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return "#000000" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18 else "#FFFFFF"


def _at(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
