"""Traces, guards and recompiles as a reader sees them: breaks marked in the source, guards by what they check."""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence

from ..page.figures import Drawing, Series
from ..page.marks import bars
from ..page.tables import Code, Table
from .guards import ABOUT, Guard, counted, folded
from .recompiles import WatchedCall
from .tracing import DynamoTrace


def source(fn: Callable, trace: DynamoTrace) -> Code:
    """The function's own source, with the lines marked at which its graph broke."""
    lines, first = inspect.getsourcelines(fn)
    here = {stop.line - first + 1 for stop in trace.breaks if stop.file == fn.__code__.co_filename}
    return Code(textwrap.dedent("".join(lines)), mark=sorted(here & set(range(1, len(lines) + 1))))


def breaks(trace: DynamoTrace) -> Table:
    """One row a break: where, which line, what Dynamo says, what becomes of the function."""
    rows = [
        (stop.place, Code(stop.source), stop.reason, stop.skipped_for or "it is split here") for stop in trace.breaks
    ]
    return Table(["place", "line", "Dynamo says", "so the function"], rows)


def steps(trace: DynamoTrace) -> Table:
    """One row a function that Dynamo rewrote: what its new bytecode does, in order."""
    rows = [(Code(each.function), " → ".join(each.steps)) for each in trace.rewritten]
    return Table(["function", "its new bytecode"], rows)


def graph_code(trace: DynamoTrace) -> Code:
    """All graphs as readable Python, without the class that wraps each of them."""
    return Code("\n\n".join(f"# graph {at}\n{_body(graph.code)}" for at, graph in enumerate(trace.graphs)))


def summary(trace: DynamoTrace) -> str:
    """One sentence: graphs, ops and breaks, and what that means."""
    counts = str(trace).splitlines()[0].rpartition(",")[0]
    if not trace.graphs:
        return f"**Nothing was compiled**: all of it runs in Python ({counts})."
    return f"**{'One graph' if not trace.breaks else 'Broken'}**: {counts}."


def _body(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("class ")]
    return textwrap.dedent("\n".join(lines))


def counts(guards: Iterable[Guard]) -> Table:
    """One row for each thing that guards speak of: how many, and how many lines once layers are folded."""
    guards = list(guards)
    lines = [line.about for line in folded(guards)]
    rows = [(about, count, lines.count(about)) for about, count in counted(guards).items()]
    return Table(["guards on", "guards", "folded"], [*rows, ("all", len(guards), len(lines))])


def by_thing(guards: Iterable[Guard], table: Table, caption: str = "") -> Drawing:
    """Bars of how many guards speak of each thing; ``table`` stands in the numbers' place."""
    found = counted(guards)
    places = [about for about in ABOUT if about in found]
    most = max(places, key=found.__getitem__)
    series = Series("guards", places, [found[about] for about in places])
    title = f"{found[most]} of the {sum(found.values())} guards are of one kind: {most}."
    return bars(series, value_title="guards", title=title, caption=caption, table=table)


def conditions(guards: Iterable[Guard], about: str | None = None) -> Table:
    """One row a condition, layers folded, with the line of code that asked for it; of one thing only with ``about``."""
    rows = [
        (line.count, line.text, Code(line.source) if line.source else None)
        for line in folded(guards)
        if about in (None, line.about)
    ]
    return Table(["times", "guard", "created by"], rows)


def calls(made: Sequence[WatchedCall]) -> Table:
    """One row a call: its arguments, what became of it, the guard that failed, and the graph's inputs if one was made.

    Of several compilations that do not fit, the newest one's guard is shown; torch's own account of it, or the
    forecast where torch did not compile.
    """
    rows = [(call.arguments, call.outcome, _newest_failure(call), ", ".join(call.inputs) or None) for call in made]
    return Table(["call", "outcome", "guard that failed (newest code)", "inputs of the new graph"], rows)


def _newest_failure(call: WatchedCall) -> str | None:
    forecast = [failed.guard for failed in call.forecast.failed] if call.forecast.recompiles else []
    return next(iter((*call.failed, *forecast)), None)
