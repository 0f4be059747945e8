"""Guards and recompiles as a reader sees them: guards by what they speak of, calls by what became of them."""

from collections.abc import Iterable, Sequence

from compile_lab.guards import Guard, counted, folded
from compile_lab.panels import Code, Table
from compile_lab.recompiles import Call


def counts(guards: Iterable[Guard]) -> Table:
    """One row for each thing that guards speak of: how many, and how many lines once layers are folded."""
    guards = list(guards)
    lines = [line.about for line in folded(guards)]
    rows = [(about, count, lines.count(about)) for about, count in counted(guards).items()]
    return Table(["guards that speak of", "guards", "folded"], [*rows, ("all", len(guards), len(lines))])


def conditions(guards: Iterable[Guard], about: str | None = None) -> Table:
    """One row a condition, layers folded, with the line of code that asked for it; of one thing only with ``about``."""
    rows = [
        (line.count, line.text, Code(line.source) if line.source else None)
        for line in folded(guards)
        if about in (None, line.about)
    ]
    return Table(["times", "guard", "asked for by"], rows)


def calls(made: Sequence[Call]) -> Table:
    """One row a call: its arguments, what became of it, the guard that failed, and the graph's inputs if one was made.

    Of several compilations that do not fit, the newest one's guard is shown; torch's own account of it, or the
    forecast where torch did not compile.
    """
    rows = [(call.arguments, call.outcome, _newest_failure(call), ", ".join(call.inputs) or None) for call in made]
    return Table(["call", "outcome", "the newest code fails", "graph takes"], rows)


def _newest_failure(call: Call) -> str | None:
    forecast = [failed.guard for failed in call.forecast.failed] if call.forecast.recompiles else []
    return next(iter((*call.failed, *forecast)), None)
