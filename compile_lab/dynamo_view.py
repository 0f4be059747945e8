"""A Dynamo trace as a reader sees it: the source with its breaks marked, the graphs, what runs instead."""

import inspect
import textwrap
from collections.abc import Callable

from compile_lab.dynamo import DynamoTrace
from compile_lab.panels import Code, Table


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


def graphs(trace: DynamoTrace) -> Table:
    """One row a graph: the function it came from, its ops, how often it ran."""
    rows = [(at, Code(graph.function), graph.ops, graph.calls) for at, graph in enumerate(trace.graphs)]
    return Table(["graph", "captured from", "ops", "runs"], rows, align="rlrr")


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
