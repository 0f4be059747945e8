"""The atlas as a reader sees it: a card for each entry, with torch's words, the function that breaks, and its cure."""

import html
import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...doors import door
from ...page.tables import Code, marked_up
from .run import AtlasResult

_PAGES = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"


@door
@dataclass(frozen=True)
class BreakCards:
    """A card for each result, closed: its kind in torch's words and whether it is cured; inside, both functions.

    Raises ValueError without a result.

    >>> from compile_lab.dynamo.atlas.atlas_view import BreakCards
    >>> from compile_lab.dynamo.atlas.run import judge, load
    >>> BreakCards([judge(load()["branch_on_a_value"])])
    GB0170 Data-dependent branching: branch_on_a_value, cured
    """

    results: Sequence[AtlasResult]

    def __post_init__(self) -> None:
        if not self.results:
            raise ValueError("nothing to show: judge() gives the result of an entry")

    def __repr__(self) -> str:
        return "\n".join(f"{each.id} {each.kind}: {each.name}, {_answered(each)}" for each in self.results)

    def _repr_html_(self) -> str:
        return "\n".join(map(_card, self.results))


def _answered(each: AtlasResult) -> str:
    if each.cure is None:
        return "eager refuses it too" if each.eager_raises else "no cure"
    return "cured" if each.cured else "its cure no longer holds"


def reports() -> dict[str, Any]:
    """Which breaks public threads report: the kinds, most threads first, with the date and the method of the count."""
    return json.loads(pkgutil.get_data(__package__, "reports.json") or b"")


def reported_card(row: Mapping[str, Any], each: AtlasResult, opened: bool) -> str:
    """A card for one of the kinds of ``reports()``, with the code of its entry's result and a link to that entry."""
    threads = [f'<a href="https://github.com/{path}">{html.escape(path)}</a>' for path in row["threads"]]
    return (
        f'<details class="lab-reported" id="reported_{each.name}"{" open" * opened}><summary>'
        f'{marked_up(row["symptom"])} <span class="lab-note">{len(threads)} threads</span></summary>'
        f"<p><code>{each.id}</code> {marked_up(_flowing(f'{each.kind}. {each.explanation}'))}</p>{_broken(each)}"
        f'{_cure(each)}<p class="lab-note">Reported in {", ".join(threads[:3])}. '
        f'<a href="#{each.name}">The full entry</a> has torch\'s hints.</p></details>'
    )


def _card(each: AtlasResult) -> str:
    said = "".join(f"<p>{marked_up(_flowing(part))}</p>" for part in (each.explanation, *each.hints) if part)
    page = f'<a href="{_PAGES.format(each.id.lower())}">torch\'s page of {each.id}</a>'
    kinds = " ".join(word.replace(" ", "_") for word in (each.theme, _answered(each)))
    return (
        f'<details class="lab-break" id="{each.name}" data-kind="{kinds}"><summary><code>{each.id}</code> '
        f'{marked_up(each.kind)} <span class="lab-note">{html.escape(each.name.replace("_", " "))}: '
        f"{_answered(each)}</span></summary>{_broken(each)}{_called(each)}<blockquote>{said}</blockquote>{_cure(each)}"
        f'<p class="lab-note">The quoted words are torch\'s; {page}.</p></details>'
    )


def _broken(each: AtlasResult) -> str:
    where = f" under {_patch(each.config)}" if each.config else ""
    where += " without <code>fullgraph=True</code>, which captures it" if each.captured else ""
    return (f'<p class="lab-note">Breaks{where}:</p>' if where else "") + Code(each.trigger)._repr_html_()


def _cure(each: AtlasResult) -> str:
    if not each.cure:
        return f"<p><strong>No cure:</strong> {marked_up(_flowing(each.reason or ''))}.</p>".replace("..", ".")
    under = f", under {_patch(each.cure_config)}" if each.cure_config else ""
    without = f" ({marked_up(each.leaves_out)})" if each.leaves_out else ""
    return f'<p class="lab-note">The same in one graph{under}{without}:</p>{Code(each.cure)._repr_html_()}'


def _patch(config: Mapping[str, Any]) -> str:
    switches = ", ".join(f"{name}={value if isinstance(value, str) else repr(value)}" for name, value in config.items())
    return f"<code>torch._dynamo.config.patch({html.escape(switches)})</code>"


def _called(each: AtlasResult) -> str:
    return f'<p class="lab-note">Called with:</p>{Code(each.arguments)._repr_html_()}' if each.arguments else ""


def _flowing(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
