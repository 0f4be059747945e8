"""The survey as a reader sees it: what became of each architecture, and a card for each report that is kept whole."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..page.tables import Table, marked_up
from ..page.units import number, with_unit
from .cards import SEVERITIES, SEVERITY_TEXT, ReportData
from .survey import LONGEST_S, has_the_peak


def file_of(name: str) -> str:
    """The name of a report's file: "ResNet-26d (timm)" is in resnet-26d-timm.html."""
    return re.sub(r"\W+", "-", name.lower()).strip("-") + ".html"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """The survey in three sentences."""
    whole = sum(not each["failed"] for each in rows)
    seconds = sorted(each["seconds"] for each in rows if each["seconds"])
    peaks = sum(map(has_the_peak, rows))
    return (
        f"Of {len(rows)} architectures, {whole} got every card. A report took {seconds[len(seconds) // 2]:.0f} s in "
        f"the middle and {seconds[-1]:.0f} s at most; {LONGEST_S} s are promised. For {peaks}, the peak that the "
        "report predicts is within 0.1 % of what the allocator held between two calls."
    )


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A row an architecture; what failed is said in its own words."""
    columns = ["Architecture", "Parameters", "Seconds", "Found by name", "Peak, predicted", "Allocator's", "Missing"]
    return Table(columns, [_row(each) for each in rows], align="lrrlrrl", folded=f"All {len(rows)}, one by one")


def gallery(reports: Mapping[str, ReportData], folder: str) -> str:
    """Cards that lead to the reports: each with its verdicts, worst first. ``folder`` is where their files are."""
    return "".join(_card(name, each, f"{folder}{file_of(name)}") for name, each in reports.items())


def _row(each: Mapping[str, Any]) -> list[Any]:
    predicted, held = each.get("predicted_bytes"), each.get("between_calls_bytes")
    reasons = [f"{card}: {why}" for card, why in each["failed"].items()]
    reasons += [f"peak: {each['trouble']}"] if each["trouble"] and not reasons else []
    return [
        each["name"],
        number(each["parameters"]) if "parameters" in each else None,
        each["seconds"],
        ", ".join(title.replace("_", " ") for title in each.get("findings", ())) or None,
        with_unit(predicted) if predicted else None,
        with_unit(held) if held else None,
        "; ".join(reasons) or None,
    ]


def _card(name: str, report: ReportData, address: str) -> str:
    counts = [(SEVERITY_TEXT[kind], sum(card.severity == kind for card in report.cards)) for kind in SEVERITIES]
    counted = " · ".join(f"{count} {said}" for said, count in counts if count)
    worst = report.cards[0]
    return (
        f'<li class="lab-report-card"><a href="{address}">{html.escape(name)}</a>'
        f"<p>{marked_up(worst.verdict)}</p><p>{counted}; {len(report.findings)} found by name</p></li>"
    )
