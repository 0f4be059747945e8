"""The page of a report: one file of HTML that needs no script, no font and nobody else; the same in a notebook."""

import html
import re
from pathlib import Path

from ..page.figures import Drawing
from ..page.marks import Axis, Line, lines
from ..page.tables import Table, marked_up, paragraphs
from ..page.units import unit_of, with_unit
from .cards import SEVERITY_TEXT, CardCode, CardCurve, CardPart, CardTable, CardText, PlainCell, ReportCard, ReportData

MOST_LISTING_NBYTES = 500_000
"""Of listings on one page, in bytes: what comes after is named and left out."""
MARKS = (Path(__file__).parents[1] / "page" / "marks.css").read_text("utf-8")
BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:bytes?|[kMGT]?B|[nµm]?s|min|%|×)(?!\w))")

STYLE = """
.model-report{--ink:#1b2733;--paper:#fff;--soft:#f4f6f9;--rule:#d9dfe7;
 --bad:#b3261e;--look:#9a5b00;--good:#1b6e3c;--failed:#5b4a8a;
 font:16px/1.55 system-ui,sans-serif;
 color:var(--ink);background:var(--paper);max-width:70rem;margin:0 auto;padding:1.2rem}
@media(prefers-color-scheme:dark){
 .model-report{--ink:#e2e8ee;--paper:#14191f;--soft:#1d242c;--rule:#36414d;
 --bad:#ff8a80;--look:#f2b450;--good:#7fd19b;--failed:#c3b1f0}}
.model-report h1{font-size:1.7rem;margin:.2rem 0}
.model-report h2{font-size:1.2rem;margin:0}
.model-report section{border-left:5px solid var(--tone,var(--rule));
 padding:.1rem 0 .3rem 1rem;margin:2rem 0}
.model-report .bad{--tone:var(--bad)}
.model-report .look{--tone:var(--look)}
.model-report .good{--tone:var(--good)}
.model-report .failed{--tone:var(--failed)}
.model-report .verdict{font-size:1.06rem;margin:.3rem 0 .8rem}
.model-report .tag{color:var(--tone);font-size:.85rem;font-weight:600;margin-left:.6rem}
.model-report .wide{overflow-x:auto}
.model-report table{border-collapse:collapse;font-size:.86rem;margin:.6rem 0}
.model-report td,.model-report th{padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--rule);vertical-align:top;
 max-width:30rem;overflow-wrap:break-word}
.model-report pre{background:var(--soft);padding:.7rem;overflow-x:auto;font-size:.78rem;line-height:1.4}
.model-report td:has(code){min-width:12rem}
.model-report code{background:var(--soft);padding:0 .2em;overflow-wrap:anywhere}
.model-report pre code{padding:0}
.model-report details{overflow:hidden}
.model-report summary{cursor:pointer}
.model-report figure{margin:.6rem 0}
.model-report dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.6rem 0}
.model-report dd{margin:0;overflow-wrap:anywhere}
.model-report .note{font-size:.85rem;opacity:.8}
.model-report nav a{color:inherit}
@media print{
 .model-report section{break-inside:avoid-page}
.model-report{max-width:none;--ink:#000;--paper:#fff;--soft:#f4f4f4}}
.model-report .m-figure{--lab-ink:var(--ink);--lab-paper:var(--paper);--lab-line:var(--rule);--lab-soft:var(--ink)}
"""


def page(report: ReportData) -> str:
    """The whole file."""
    title = html.escape(f"{report.name}: its training step")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        "<style>body{margin:0}@media(prefers-color-scheme:dark){body{background:#14191f}}</style></head>"
        f"<body><main>{fragment(report)}</main></body></html>\n"
    )


def fragment(report: ReportData) -> str:
    """The report as it stands in a notebook: its own style, then findings and cards, worst first."""
    listings = _Listings()
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{_fact(value)}</dd>" for name, value in report.facts)
    cards = "\n".join(_card(card, listings) for card in report.cards)
    took = ", ".join(f"{name} {seconds:g} s" for name, seconds in report.seconds)
    shown = (
        f"<h1>{html.escape(report.name)}</h1><dl>{facts}</dl>\n{_overview(report)}\n{_findings(report)}\n{cards}\n"
        f'<p class="note">{html.escape(report.provenance)}. {html.escape(took)}.</p>'
    )
    pieces = re.split(r"(<pre.*?</pre>)", shown, flags=re.DOTALL)
    whole = "".join(each if each.startswith("<pre") else BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", each) for each in pieces)
    return f'<div class="model-report"><style>{STYLE}{MARKS}</style>\n{whole}</div>'


class ModelReport(ReportData):
    """A report that a notebook shows."""

    def _repr_html_(self) -> str:
        return fragment(self)


def _fact(value: object) -> str:
    return html.escape(f"{value:,}" if isinstance(value, int) else str(value)).replace("`", "")


def _overview(report: ReportData) -> str:
    items = "".join(
        f'<li class="{card.severity}"><a href="#report-{card.name}">{html.escape(card.title)}</a>'
        f'<span class="tag">{SEVERITY_TEXT[card.severity]}</span></li>'
        for card in report.cards
    )
    return f"<nav><ul>{items}</ul></nav>"


def _findings(report: ReportData) -> str:
    """What people struggle with, found here: title, evidence, cure."""
    items = "".join(
        f"<li><strong>{marked_up(each.title)}</strong> {marked_up(each.told)} <br>{marked_up(each.cure)}</li>"
        for each in report.findings
    )
    counted = f"{len(report.findings)} of the {report.asked} troubles that people meet most apply here."
    unasked = "".join(f"<li>{marked_up(each)}</li>" for each in report.unasked)
    more = f"<details><summary>{len(report.unasked)} could not be answered</summary><ul>{unasked}</ul></details>"
    tone = "look" if report.findings else "good"
    body = f"<ul>{items}</ul>" if items else ""
    return (
        f'<section class="{tone}" id="report-questions"><h2>By name</h2><p class="verdict">{counted}</p>{body}'
        f"{more if report.unasked else ''}</section>"
    )


class _Listings:
    """How much of listings may still stand on the page."""

    def __init__(self) -> None:
        self.left = MOST_LISTING_NBYTES

    def take(self, source: str) -> bool:
        """Whether this one still has room; then it takes it."""
        size = len(html.escape(source).encode())
        if size > self.left:
            return False
        self.left -= size
        return True


def _card(card: ReportCard, listings: _Listings) -> str:
    parts = "\n".join(_part(part, listings) for part in card.parts)
    return (
        f'<section class="{card.severity}" id="report-{card.name}"><h2>{html.escape(card.title)}'
        f'<span class="tag">{SEVERITY_TEXT[card.severity]}</span></h2>'
        f'<p class="verdict">{marked_up(card.verdict)}</p>\n{parts}</section>'
    )


def _part(part: CardPart, listings: _Listings) -> str:
    match part:
        case CardTable(columns, rows, folded):
            shown = [[_cell(name, cell) for name, cell in zip(columns, row, strict=True)] for row in rows]
            sides = "".join("r" if all(isinstance(row[at], int) for row in rows) else "l" for at in range(len(columns)))
            table = Table(columns, shown, align=sides, folded=folded)._repr_html_() if rows else ""
            return f'<div class="wide">{table}</div>' if table else ""
        case CardText(text):
            return paragraphs(text)
        case CardCode(title, source) if listings.take(source):
            return (
                f"<details><summary>{marked_up(title)}</summary><pre><code>{html.escape(source)}</code></pre></details>"
            )
        case CardCode(title, _):
            return f'<p class="note">{marked_up(title)}: left out, so that this page stays small.</p>'
        case CardCurve():
            return _curve(part)._repr_html_()


def _cell(column: str, cell: PlainCell) -> PlainCell:
    """Bytes in a unit that reads well; everything else as it is."""
    return with_unit(cell) if "bytes" in column and isinstance(cell, int) else cell


def _curve(curve: CardCurve) -> Drawing:
    """The bytes alive over the operations of a step, forward and backward; the peak is marked."""
    count, (unit, size) = len(curve.live_bytes), unit_of(max(curve.live_bytes))
    points = [(100 * at / count, nbytes / size) for at, nbytes in enumerate([*curve.live_bytes, curve.live_bytes[-1]])]
    parts = {"forward": points[: curve.turn + 1], "backward": points[curve.turn :]}
    peak = points[curve.peak_at]
    return lines(
        {"": [Line(name, part, stepped=True, marked=[peak] * (peak in part)) for name, part in parts.items() if part]},
        Axis("of the step's operations", "%", until=100),
        Axis("alive", unit),
        title=f"At the peak {with_unit(max(curve.live_bytes))} are alive.",
        caption=curve.said,
        area=True,
    )
