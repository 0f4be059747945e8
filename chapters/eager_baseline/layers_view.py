"""A pass of a model as layers of calls: what Python calls, what the dispatcher makes of it, and what of it is work."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.eager.dispatch import Call, DispatchLog, log
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments
from compile_lab.page.tables import Table

from .view import MEANINGS

CALL, WORK = "a call", "an operator that writes data"


def layers_of(name: str, fn: Callable[..., Any], *args: Any) -> Drawing:
    """``layers`` of one call of a function or module, which is made here."""
    return layers(log(fn, *args), name)


def layers(found: DispatchLog, name: str) -> Drawing:
    """The calls of a pass in their order, four layers of them, each call above those that it led to.

    ``name`` says what the pass is.
    Raises ValueError for a log without calls.
    """
    if not found.calls:
        raise ValueError("the log has no calls: nothing was called, and nothing can be drawn")
    calls, counts, ends = found.calls, found.counts(), _ends(found.calls)

    def row(name: str, chosen: Callable[[Call], bool], count: int | None = None) -> Row:
        spans = [(WORK if call.computes else CALL, at, ends[at]) for at, call in enumerate(calls) if chosen(call)]
        return _row(name, spans, count)

    def at_depth(depth: int) -> Callable[[Call], bool]:
        return lambda call: call.depth == depth

    parts = [Segment("a layer of the model", end - at, at, part, faint=True) for part, at, end in _parts(calls) if part]
    rows = [
        Row("", parts, after=""),
        _row("from Python", [(CALL, *span) for span in _python_spans(calls, ends)], counts["python_calls"]),
        row("dispatches", lambda call: call.depth == 0, len(calls)),
        *(row(f"depth {depth}", at_depth(depth)) for depth in range(1, max(call.depth for call in calls) + 1)),
        row("a compiler sees", lambda call: call.below_autograd, counts["below_autograd"]),
        row("write data", lambda call: call.computes, counts["computing"]),
    ]
    title = (
        f"{counts['python_calls']} calls by Python lead to {len(calls)} dispatches, "
        f"of which {counts['computing']} write data."
    )
    drawn = segments(
        rows,
        Axis("calls of the dispatcher, in order", until=len(calls)),
        title=title,
        caption=f"{name}, counted in this run. The calls that a call led to stand below it.",
        colours={CALL: "blue", WORK: "vermillion", "a layer of the model": "grey"},
        table=Table(["what is counted", "calls"], [(words, counts[key]) for key, words in MEANINGS.items()]),
    )
    return replace(drawn, alt=title)  # sums of what is drawn would be places, not calls


def _row(name: str, spans: Sequence[tuple[str, int, int]], count: int | None) -> Row:
    parts = [Segment(series, end - start, start, "") for series, start, end in spans]
    return Row(name, parts, after="" if count is None else f"{count:,}", thin=count is None)


def _ends(calls: Sequence[Call]) -> list[int]:
    """For each call the place after the last call that was made inside it."""
    ends = [0] * len(calls)
    open_calls: list[int] = []
    for at, call in enumerate(calls):
        while open_calls and calls[open_calls[-1]].depth >= call.depth:
            ends[open_calls.pop()] = at
        open_calls.append(at)
    for at in open_calls:
        ends[at] = len(calls)
    return ends


def _python_spans(calls: Sequence[Call], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From the first call of the dispatcher that a call by Python led to, until after the last one."""
    spans: dict[int, tuple[int, int]] = {}
    for at, call in enumerate(calls):
        if call.python_call:
            start, end = spans.get(call.python_call, (at, at))
            spans[call.python_call] = (start, max(end, ends[at]))
    yield from spans.values()


def _parts(calls: Sequence[Call]) -> list[tuple[str, int, int]]:
    """The model's parts in the order of their calls: a stack's layer by its number, its first place, the one after."""
    parts: list[tuple[str, int, int]] = []
    for at, call in enumerate(calls):
        first, _, rest = call.module.partition(".")
        number = rest.partition(".")[0]
        name = f"{first.removesuffix('s')} {number}" if number.isdigit() else ""
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1], at + 1)
        else:
            parts.append((name, at, at + 1))
    return parts
