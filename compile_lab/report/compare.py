"""What moved between two reports: before and after a change, or the same model on two versions of torch.

``earlier(path)`` reads what ``--json`` wrote, ``moved(before, after)`` is the card on top of the later report.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..doors import is_source
from ..page.units import signed, with_unit
from .cards import SEVERITIES, SEVERITY_TEXT, CardPart, CardTable, CardText, ReportCard, ReportData
from .target import UnusableModel

Figures = dict[tuple[str, str], tuple[int, str]]
"""A number and its unit, by its card and its name."""


def earlier(path: Path) -> dict[str, Any]:
    """The report in a file that ``--json`` wrote. UnusableModel says what is wrong with the file."""
    try:
        if path.exists() and not is_source(path):
            raise UnusableModel(f"--compare {path.name} is no regular file; give what --json wrote")
        data = json.loads(path.read_text(encoding="utf-8"))
        _figures(data)
        {card["name"]: card["severity"] for card in data["cards"]}
        {finding["name"]: finding["title"] for finding in data["findings"]}
        str(data["name"]), str(data["provenance"])
    except UnusableModel:
        raise
    except OSError as error:
        raise UnusableModel(
            f"--compare {path.name} cannot be read: {error.strerror}; give what --json wrote"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnusableModel(
            f"--compare {path.name} holds no report ({type(error).__name__}: {str(error)[:80]}); make one with --json"
        ) from error
    return data


def moved(before: Mapping[str, Any], after: ReportData) -> ReportCard:
    """Every number that is another one now, findings that came or went, and whether model or torch are others, too."""
    now = after.as_data()
    old, new = _figures(before), _figures(now)
    rows = [
        (card, name, _amount(*old[card, name]), _amount(value, unit), _change(old[card, name][0], value))
        for (card, name), (value, unit) in new.items()
        if (card, name) in old and old[card, name][0] != value
    ]
    gone, come = _findings(before).items() - _findings(now).items(), _findings(now).items() - _findings(before).items()
    severities = {card["name"]: card["severity"] for card in before["cards"]}
    turned = [
        (card.title, SEVERITY_TEXT[severities[card.name]], SEVERITY_TEXT[card.severity])
        for card in after.cards
        if severities.get(card.name, card.severity) != card.severity
    ]
    same = sum(each in old and old[each] == new[each] for each in new)
    verdict = f"{len(rows)} of {len(rows) + same} numbers moved since the earlier report"
    verdict += f"; {len(come)} troubles came and {len(gone)} went." if come or gone else "."
    untold = sorted({card for card, _ in old.keys() ^ new.keys()})
    parts: list[CardPart] = [
        CardTable(("card", "number", "before", "now", "change"), tuple(rows)),
        CardTable(("verdict on", "before", "now"), tuple(turned)),
        *(CardText(f"Came: {title}") for _, title in sorted(come)),
        *(CardText(f"Went: {title}") for _, title in sorted(gone)),
        CardText(_of_what(before, after)),
    ]
    if untold:
        parts.append(CardText(f"In one of the two reports only, and so not compared: {', '.join(untold)}."))
    worse = any(
        SEVERITIES.index(card.severity) < SEVERITIES.index(severities.get(card.name, card.severity))
        for card in after.cards
    )
    return ReportCard("moved", "What moved", verdict, "look" if worse or come else "good", tuple(parts))


def _figures(report: Mapping[str, Any]) -> Figures:
    return {
        (card["name"], name): (value, unit) for card in report["cards"] for name, value, unit in card.get("figures", ())
    }


def _findings(report: Mapping[str, Any]) -> dict[str, str]:
    return {finding["name"]: finding["title"] for finding in report["findings"]}


def _of_what(before: Mapping[str, Any], after: ReportData) -> str:
    """What else is another one between the two, so that nobody takes a new torch for a change of the model."""
    facts = dict(map(tuple, before.get("facts", ())))
    others = [name for name, value in after.facts if facts.get(name) != value]
    said = f"Before: {before['name']} · {before['provenance']}. Now: {after.name} · {after.provenance}."
    return f"{said} Not the same in both: {', '.join(others)}." if others else said


def _amount(value: int, unit: str) -> str:
    return with_unit(value) if unit == "bytes" else f"{value:,}"


def _change(before: int, now: int) -> str:
    return signed(now / before - 1, ".1%") if before else "new"
