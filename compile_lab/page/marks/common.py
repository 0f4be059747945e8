"""What all marks have: an axis and its scale, colours with their legend, words that stand for the picture."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..canvas import round_end
from ..figures import PALETTE, Drawing
from ..tables import Table
from ..units import significant

COLOURS = tuple(PALETTE)
References = Mapping[str, tuple[float, str]]
"""Lines through the whole picture: {words of the legend: (value, colour)}."""


@dataclass(frozen=True)
class Axis:
    """A quantity and its unit, from `low` to `until`: by default from 0 to the round number above the largest value.

    `ticks` are round numbers unless given, and none if None; the last one carries the unit. A logarithmic axis has no
    0: it begins at the power of ten below the smallest value.
    """

    title: str = ""
    unit: str = ""
    log: bool = False
    low: float | None = None
    until: float | None = None
    ticks: Sequence[float] | None = ()

    @property
    def head(self) -> str:
        return ", ".join(part for part in (self.title, self.unit) if part)

    def scale(self, values: Iterable[float]) -> Scale:
        """The scale that holds these values, or the axis's own ends. ValueError where there is no value."""
        known = [*values]
        if not known:
            raise ValueError("nothing to draw: the rows have no value")
        return self._log_scale(known) if self.log else self._linear_scale(known)

    def _linear_scale(self, known: Sequence[float]) -> Scale:
        least, most = min(known), max(known)
        low = self.low if self.low is not None else -round_end(-least) if least < 0 else 0.0
        until = self.until if self.until is not None else round_end(most) if most > 0 else max(0.0, low + 1)
        power = 10.0 ** math.floor(math.log10((until - low) / 4))
        step = next(times * power for times in (1, 2, 2.5, 5, 10) if until - low <= 5.001 * times * power)
        ticks = [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(until / step + 1e-9) + 1)]
        return Scale(low, until, False, self._ticks(ticks))

    def _log_scale(self, known: Sequence[float]) -> Scale:
        positive = [value for value in known if value > 0] or [1.0]
        low = self.low or 10.0 ** math.floor(math.log10(min(positive)))
        until = self.until or max(10.0 ** math.ceil(math.log10(max(positive)) - 1e-9), 10 * low)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(until)) + 1)
        steps = (1,) if len(powers) > 3 else (1, 2, 5)
        ticks = [10.0**power * step for power in powers[:: -(-len(powers) // 7)] for step in steps]
        return Scale(low, until, True, self._ticks([tick for tick in ticks if low <= tick <= 1.0001 * until]))

    def _ticks(self, round_ones: Sequence[float]) -> Sequence[float]:
        return () if self.ticks is None else self.ticks or round_ones


@dataclass(frozen=True)
class Scale:
    """From values to shares of a length."""

    low: float
    until: float
    log: bool
    ticks: Sequence[float]

    def share(self, value: float) -> float:
        """How far along, from 0 to 1; what a logarithmic scale has no place for is at its beginning.

        ValueError off the scale.
        """
        value = max(value, self.low) if self.log else value
        slack = 1e-9 * (abs(self.until) + abs(self.low))
        if not self.low - slack <= value <= self.until + slack:
            raise ValueError(f"{value:g} is not on an axis from {self.low:g} to {self.until:g}")
        if self.log:
            return math.log(value / self.low) / math.log(self.until / self.low)
        return (value - self.low) / (self.until - self.low)

    def at(self, value: float) -> str:
        return percent(self.share(value))

    def wide(self, start: float, end: float) -> str:
        return percent(self.share(end) - self.share(start))

    def ticks_html(self, unit: str, side: str) -> str:
        texts = [*map(tick_text, self.ticks)]
        texts[-1:] = [with_unit(text, unit) for text in texts[-1:]]
        places = map(self.at, self.ticks)
        return "".join(
            f"<i style='{side}:{place}'><span>{text}</span></i>" for place, text in zip(places, texts, strict=True)
        )


@dataclass(frozen=True)
class Sheet:
    """What a caller says of any picture."""

    title: str
    caption: str
    colours: Mapping[str, str] | None
    references: References
    provenance: object | None
    table: Table | None

    def hues(self, names: Iterable[str]) -> dict[str, str]:
        """The colour of each series, in the order of `colours` or as they come. ValueError for one without."""
        used = list(dict.fromkeys(names))
        if self.colours is None:
            if len(used) > len(COLOURS):
                raise ValueError(f"{len(used)} series: at most {len(COLOURS)} are told apart by their colours")
            return dict(zip(used, COLOURS, strict=False))
        if lost := [name for name in used if name not in self.colours]:
            raise ValueError(f"series {lost[0]!r} has no colour; there are colours of {', '.join(self.colours)}")
        if wrong := [colour for colour in self.colours.values() if colour not in (*PALETTE, "ink")]:
            raise ValueError(f"no colour {wrong[0]!r}; there are ink, {', '.join(PALETTE)}")
        return {name: colour for name, colour in self.colours.items() if name in used}

    def drawing(
        self, body: str, sentences: Iterable[str], table: Table, hues: Mapping[str, str], shapes: Sequence[str] = ()
    ) -> Drawing:
        """The picture; its words are the title and the `sentences`. ValueError without a title."""
        if not self.title.strip():
            raise ValueError("a picture has a title: one sentence that says what is to be seen in it")
        signs = [(hue, sign, name) for (name, hue), sign in zip(hues.items(), shapes or "■" * len(hues), strict=False)]
        signs = [] if len(signs) == 1 and self.colours is None and not self.references else signs
        signs += [(colour, "┆", name) for name, (_, colour) in self.references.items()]
        legend = " ".join(
            f"<span class='m-word m-ink-{hue}'><i class='m-sign-{hue}'>{sign}</i> {html.escape(name)}</span>"
            for hue, sign, name in signs
        )
        told = "; ".join(part for part in sentences if part).replace("\u202f", " ")
        alt = f"{self.title} {told}." if told else self.title
        return Drawing(body, alt, self.caption, self.table or table, self.provenance, legend, self.title)


def short(value: float) -> str:
    """Two figures below a hundred, three from there on, whole where whole: 0.71, 3.4, 24, 139, 1,560."""
    if isinstance(value, int) and abs(value) < 100:
        return str(value).replace("-", "−")
    if abs(value) >= 99.5:
        return significant(value, 3).replace("-", "−")
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}" if abs(value) >= 0.995 else f"{value:.2g}"
    return text.replace("-", "−")


def tick_text(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4) and math.isclose(float(f"{value / size:.3g}") * size, value):
            return f"{value / size:g}\u202f{letter}"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")


def with_unit(value: float | str, unit: str) -> str:
    text = value if isinstance(value, str) else short(value)
    return f"{text}{unit}" if unit in ("", "×") else f"{text}\u202f{unit}"


def percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def joined(*names: str) -> str:
    return ", ".join(name for name in names if name)


def attribute(text: str) -> str:
    return html.escape(text, quote=True)
