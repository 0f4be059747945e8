"""Calls of compiled functions as pictures: which were served by code that was there, which had to be compiled."""

from collections.abc import Mapping, Sequence

from ..page.figures import Drawing
from ..page.marks import Axis, Cell, Row, Segment, cells, segments
from ..page.tables import Table
from .recompiles import WatchedCall

OUTCOMES = {"compiled": "vermillion", "reused": "blue", "eager": "grey", "raised": "purple"}
"""What becomes of a call, and its colour."""
MEANT = {
    "compiled": "no guards fit: compiled",
    "reused": "all guards of one version hold: reused",
    "eager": "back to plain Python",
    "raised": "an error",
}


def outcome(call: WatchedCall) -> str:
    """One of `OUTCOMES`: of what a call raised, the kind alone."""
    return call.outcome.partition(" ")[0]


def counted(calls: Sequence[WatchedCall]) -> dict[str, int]:
    """How many of the calls had each outcome, in the order of `OUTCOMES`; outcomes of none are left out."""
    found = [outcome(call) for call in calls]
    return {each: found.count(each) for each in OUTCOMES if each in found}


def row_by_row(
    several: Mapping[str, Sequence[WatchedCall]],
    labels: Sequence[object],
    what: str,
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Series of calls by name, a row each; a segment is a call, ``labels`` say what it was called with, ``what`` they
    are.

    ``table`` stands in the place of the counts. Raises ValueError without a series, and for one that has not one call
    for each label.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one series of calls")
    for name, calls in several.items():
        if len(calls) != len(labels):
            raise ValueError(f"{name!r} has {len(calls)} calls for {len(labels)} labels: give one label a call")
    made = {name: counted(calls).get("compiled", 0) for name, calls in several.items()}
    rows = [
        Row(
            name,
            [_segment(label, call) for label, call in zip(labels, calls, strict=True)],
            after=f"{made[name]} of {len(labels)} compiled",
        )
        for name, calls in several.items()
    ]
    return segments(
        rows,
        Axis(what, until=max(len(labels), 4), ticks=None),
        title=f"Compilations in {len(labels)} calls: {'; '.join(f'{name} {count}' for name, count in made.items())}.",
        colours={MEANT[kind]: colour for kind, colour in OUTCOMES.items()},
        provenance=provenance,
        table=table,
    )


def _segment(label: object, call: WatchedCall) -> Segment:
    return Segment(MEANT[outcome(call)], 1, words=str(label), title=f"{call.arguments}: {call.outcome}")


def predicted(events: Mapping[str, tuple[bool, str, bool, str]]) -> Drawing:
    """A row for each thing that happens to a model: what the guards said of the next call, what torch did, the result.

    Each is (forecast of a recompile, what torch did, whether the result is eager's, the guard that fails or nothing).
    Raises ValueError without an event.
    """
    if not events:
        raise ValueError("nothing to draw: give at least one event")
    grid = [
        [
            Cell("one fails", "compiled") if recompiles else Cell("all hold", "reused"),
            Cell(done, done),
            Cell("as eager") if right else Cell("wrong", "a wrong result"),
        ]
        for recompiles, done, right, _ in events.values()
    ]
    said, right = (sum(bool(each[at]) for each in events.values()) for at in (0, 2))
    return cells(
        {"": grid},
        rows=list(events),
        columns=("guards", "torch", "result"),
        title=f"A guard fails in {said} of {len(events)} calls; {right} results are eager's.",
        colours={kind: OUTCOMES[kind] for kind in ("compiled", "reused")} | {"a wrong result": "orange"},
        table=Table(
            ["what happens", "recompiles?", "torch", "result as eager", "the guard that fails"],
            [(name, again, done, right, guard or None) for name, (again, done, right, guard) in events.items()],
        ),
    )
