"""The cards on Dynamo: where the graph breaks, and what would compile again. Pure functions of what was captured."""

import functools

from .._torch.dynamo import dynamo_config
from ..dynamo.atlas.entries import source_of
from ..dynamo.atlas.run import load, registry
from ..dynamo.guards import counted, folded
from ..dynamo.tracing import GraphBreak
from ..page.units import with_unit
from .captured import Captured
from .cards import CardCode, CardFigure, CardPart, CardTable, CardText, ReportCard
from .handed import CompiledPart
from .tries import NOT_TRIED, Tried

MOST_GUARDS = 60
MOST_NAMED = 4


def breaks_card(found: Captured) -> ReportCard:
    """Where Dynamo had to stop: line, torch's id, cure, and what Python runs instead."""
    trace = found.trace
    figures = (
        CardFigure("graphs", len(trace.graphs)),
        CardFigure("graph breaks", len(trace.breaks)),
        CardFigure("operations that Dynamo captured", trace.ops),
    )
    graphs = f"{len(trace.graphs)} {'graph' if len(trace.graphs) == 1 else 'graphs'} with {trace.ops} operations"
    if not trace.breaks:
        if not trace.graphs:
            return ReportCard(
                "breaks", "Graph breaks", "Dynamo captured no graph: all of it runs eagerly.", "bad", (), figures
            )
        return ReportCard("breaks", "Graph breaks", f"None: {graphs} hold the whole forward.", "good", (), figures)
    count = len(trace.breaks)
    rows = tuple(
        (each.place, each.source, gb_id(each), each.reason, _instead(each), each.hint or each.explanation)
        for each in trace.breaks
    )
    columns = ("where", "line", "torch's id", "what it means", "what runs eagerly", "cure, in torch's words")
    lost = [each for each in trace.breaks if each.skipped_for]
    lines = "line" if count == 1 else "lines"
    verdict = f"The forward breaks at {count} {lines} into {graphs}."
    if not trace.graphs:
        verdict = f"Dynamo captured no graph: the forward breaks at {count} {lines}."
    if lost:
        verdict += f" {_functions(lost)} whole left to Python."
    parts = (CardTable(columns, rows), *_examples(trace.breaks))
    return ReportCard("breaks", "Graph breaks", verdict, "bad", parts, figures)


def handed_card(found: Captured) -> ReportCard:
    """What the reader compiles by itself: how often torch did so, why again, and whether it still does."""
    handed = found["handed"]
    count = sum(each.compilations for each in handed.parts)
    marked = _paths_text(handed.marked) or ", ".join(f"`{each.function}`" for each in handed.parts)
    verdict = f"You compile {marked}{', each by itself' if len(handed.marked) > 1 else ' by itself'}: "
    entered = f"a {'step' if found.given.step else 'forward'} enters {_number(handed.entered, 'compiled graph')}"
    severity = "bad" if handed.at_limit or not handed.entered else "look"
    if handed.at_limit:
        names = ", ".join(f"`{each.function}` ({each.place})" for each in handed.at_limit)
        verdict += f"{entered}; torch has compiled {names} as often as it does, and all other calls of it run eagerly."
    elif not handed.entered:
        verdict += "the call enters no compiled graph, so all of it runs eagerly."
    else:
        verdict += f"{_number(count, 'compilation')}, and {entered}."
    kept = (
        ""
        if handed.kept_nbytes is None
        else f" As you run it, {with_unit(handed.kept_nbytes)} are kept for the backward."
    )
    said = CardText(f"The other cards are of what it is when the model is compiled as one.{kept}")
    columns = ("function", "where", "compilations", "what stopped them", "compiled again because")
    rows = tuple(
        (each.function, each.place, each.compilations, _limited(each), "; ".join(each.failed)) for each in handed.parts
    )
    figures = (CardFigure("compilations of parts", count), CardFigure("compiled graphs entered", handed.entered))
    return ReportCard("handed", "As you compile it", verdict, severity, (said, CardTable(columns, rows)), figures)


def _number(count: int, of: str) -> str:
    return f"{count} {of}" if count == 1 else f"{count} {of}s"


def _limited(part: CompiledPart) -> str:
    return f"`torch._dynamo.config.{part.limit}`" if part.limit else ""


def _paths_text(paths: tuple[str, ...]) -> str:
    """Paths of modules; of many the first and the last."""
    named = [f"`{each}`" for each in paths]
    return ", ".join(named) if len(named) < MOST_NAMED else f"{len(named)} modules from {named[0]} to {named[-1]}"


def _functions(lost: list[GraphBreak]) -> str:
    names = sorted({f"`{each.function}`" for each in lost})
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _instead(at: GraphBreak) -> str:
    if at.skipped_for:
        return f"all of {at.function}(): {at.skipped_for}"
    return "this line; the graph ends here, another begins behind it"


def gb_id(at: GraphBreak) -> str:
    """torch's own id for that kind of break, GB and four digits; empty where its list has none."""
    return _ids().get(at.reason, "")


@functools.cache
def _ids() -> dict[str, str]:
    return {kind: number for number, kind in registry().items()}


def _examples(breaks: tuple[GraphBreak, ...]) -> list[CardPart]:
    """For each kind of break that the atlas of breaks can cure: a small function that has it, and the cured one."""
    parts: list[CardPart] = []
    for number in dict.fromkeys(filter(None, map(gb_id, breaks))):
        known = [(entry, entry.cure) for entry in load().values() if entry.id == number and entry.cure]
        if known:
            before, after = (source_of(each.function) for each in known[0])
            parts.append(CardCode(f"{number} in a small example, and a cure that was tried", f"{before}\n\n\n{after}"))
    return parts


def guards_card(found: Captured) -> ReportCard:
    """What would compile again: tried on the model, and what it is guarded on."""
    tries, (optimizer, rates) = found.tries, found.rates
    rows = tuple((each.change, _outcome_text(each), "; ".join(each.failed)) for each in tries[1:])
    rate = tuple(at for at, again in enumerate(rates, 1) if again)
    rows += (("learning rate changed", _rate(rate), f"{optimizer}.step compiled by itself, four changes"),)
    again = [each.change for each in tries[1:] if each.compiled_again]
    severity = "look" if again or rate else "good"
    verdict = f"Compiles again for: {', '.join(again)}." if again else "No change that was tried compiles again."
    if left := sum(each.outcome == NOT_TRIED for each in tries[1:]):
        verdict = f"{verdict[:-1]}; time was over for {left} of {len(tries) - 1} changes (`--limit-s` gives more)."
    if limit := [each.change for each in tries if each.at_limit]:
        severity, verdict = "bad", f"{verdict[:-1]}; at torch's limit of compilations {', '.join(limit)} ran eagerly."
    if all(each.outcome == "eager" for each in tries):
        severity, verdict = "bad", "Nothing is compiled, so nothing compiles again: each call ran eagerly."
    if rate:
        verdict += f" A compiled {optimizer}.step compiles again for {len(rate)} of 4 changed learning rates."
    guards = [guard for guard in found.trace.guards if not guard.ambient]
    by = ", ".join(f"{about} {count}" for about, count in counted(guards).items())
    listed = tuple((each.text, each.count, each.source) for each in folded(guards)[:MOST_GUARDS])
    parts = (
        CardTable(("what changed", "what became of it", "the guard that failed"), rows),
        CardText(f"{len(guards)} guards are checked before each call, global switches aside. They are about: {by}."),
        CardTable(("guard", "times", "created by"), listed, folded=f"The guards, {len(listed)} kinds of them"),
    )
    figures = (CardFigure("guards", len(guards)), CardFigure("changes that compile again", len(again) + bool(rate)))
    return ReportCard("guards", "Guards, and what compiles again", verdict, severity, parts, figures)


def _outcome_text(tried: Tried) -> str:
    if tried.at_limit:
        limit = dynamo_config.recompile_limit
        return f"ran eagerly: a function is compiled {limit} times (`torch._dynamo.config.recompile_limit`)"
    said = {"reused": "used again", "compiled": "compiled again", "eager": "ran eagerly"}
    refused = {"refused": "the model does not take it, compiled or not", NOT_TRIED: "not tried: time was over"}
    return {**said, **refused}.get(tried.outcome, tried.outcome)


def _rate(again: tuple[int, ...]) -> str:
    if not again:
        return "used again"
    return f"compiled again at change {', '.join(map(str, again))}"
