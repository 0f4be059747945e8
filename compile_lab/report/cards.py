"""What a report is made of, as plain data: cards with a verdict, and findings by name. Nothing here draws."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

SEVERITIES = ("bad", "failed", "look", "good")
"""Worst first: something is lost, the part itself failed, worth a look, nothing to do."""
SEVERITY_TEXT = {
    "bad": "costs you something",
    "failed": "could not be found out",
    "look": "worth a look",
    "good": "nothing to do",
}

PlainCell = str | int | float | bool | None


@dataclass(frozen=True)
class CardTable:
    """Rows under columns. With ``folded`` it opens when that line is clicked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[PlainCell, ...], ...]
    folded: str = ""


@dataclass(frozen=True)
class CardText:
    """A paragraph; `backticks` mark code."""

    text: str


@dataclass(frozen=True)
class CardCode:
    """A listing that opens when its title is clicked."""

    title: str
    source: str


@dataclass(frozen=True)
class CardCurve:
    """Bytes alive at each operation of a step: ``turn`` is where the backward begins, ``peak_at`` where most lives."""

    live_bytes: tuple[int, ...]
    turn: int
    peak_at: int
    said: str


CardPart = CardTable | CardText | CardCode | CardCurve
_PARTS = {frozenset(each.name for each in fields(kind)): kind for kind in (CardTable, CardText, CardCode, CardCurve)}


class CardFigure(NamedTuple):
    """A number by which two reports are compared; ``unit`` is "bytes", or empty for what is counted."""

    name: str
    value: int
    unit: str = ""


@dataclass(frozen=True)
class ReportCard:
    """One thing that the report tells: a title, its verdict in a sentence, how bad that is, and the evidence."""

    name: str
    title: str
    verdict: str
    severity: str
    parts: tuple[CardPart, ...] = ()
    figures: tuple[CardFigure, ...] = ()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"card {self.name}: severity is one of {SEVERITIES}, not {self.severity!r}")

    def __str__(self) -> str:
        return f"[{SEVERITY_TEXT[self.severity]}] {self.title}: {self.verdict}"


@dataclass(frozen=True)
class NamedFinding:
    """A trouble that many people meet, found in this model: ``name`` is the question's, ``cure`` what to do."""

    name: str
    title: str
    told: str
    cure: str


@dataclass(frozen=True)
class ReportData:
    """All cards on one model, worst first, and the findings by name. ``asked`` counts the questions that were asked."""

    name: str
    facts: tuple[tuple[str, PlainCell], ...]
    cards: tuple[ReportCard, ...]
    findings: tuple[NamedFinding, ...]
    asked: int
    unasked: tuple[str, ...]
    """The questions that could not be asked, and why: ``name: what failed``."""
    provenance: str
    seconds: tuple[tuple[str, float], ...] = field(repr=False)
    """How long each part took."""

    def __getitem__(self, name: str) -> ReportCard:
        """The card of that name; KeyError lists the names."""
        found = {card.name: card for card in self.cards}
        if name not in found:
            raise KeyError(f"no card is called {name!r}; there is {', '.join(found)}")
        return found[name]

    def as_data(self) -> dict[str, Any]:
        """The same as values that JSON holds."""
        return asdict(self)

    def __str__(self) -> str:
        found = [f"- {each.title} {each.cure}" for each in self.findings]
        return "\n".join([f"{self.name} · {self.provenance}", *map(str, self.cards), *found])

    __repr__ = __str__


def report_of(data: Mapping[str, Any]) -> ReportData:
    """The report that ``as_data()`` gave, or ``--json`` wrote. KeyError or TypeError where it is another's."""
    told = {name: _frozen(value) for name, value in data.items() if name not in ("cards", "findings")}
    findings = tuple(NamedFinding(**each) for each in data["findings"])
    return ReportData(**told, cards=tuple(map(_card_of, data["cards"])), findings=findings)


def _card_of(data: Mapping[str, Any]) -> ReportCard:
    parts = tuple(
        _PARTS[frozenset(each)](**{name: _frozen(value) for name, value in each.items()}) for each in data["parts"]
    )
    return ReportCard(**{**data, "parts": parts, "figures": tuple(CardFigure(*each) for each in data["figures"])})


def _frozen(value: Any) -> Any:
    """Tuples where JSON has lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def worst_first(cards: list[ReportCard]) -> tuple[ReportCard, ...]:
    """The cards by severity; among equals, in the order they came."""
    return tuple(sorted(cards, key=lambda card: SEVERITIES.index(card.severity)))
