"""Calls of compiled functions as pictures: which were served by code that was there, which had to be compiled."""

from collections.abc import Mapping, Sequence

from ..page.canvas import DIGIT, WIDTH, Canvas, key
from ..page.figures import Drawing
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

_LEFT, _RIGHT, _ROW, _BAR, _HEAD = 215, 165, 62, 46, 34


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
    caption: str = "",
    provenance: object | None = None,
    table: Table | None = None,
) -> Drawing:
    """Series of calls by name, a row each; a tile is a call, ``labels`` say what it was called with, ``what`` they are.

    ``table`` stands in the place of the counts. Raises ValueError without a series, and for one that has not one call
    for each label.
    """
    if not several:
        raise ValueError("nothing to draw: give at least one series of calls")
    for name, calls in several.items():
        if len(calls) != len(labels):
            raise ValueError(f"{name!r} has {len(calls)} calls for {len(labels)} labels: give one label a call")
    canvas = Canvas(size=22)
    left = max(_LEFT, max(map(len, several)) * (DIGIT + 0.03) * canvas.size)  # bold letters are wider
    tile = min(150.0, (WIDTH - left - _RIGHT) / len(labels))
    canvas.words(left, 20, f"{what} →", size=20)
    for at, (name, calls) in enumerate(several.items()):
        top = _HEAD + at * _ROW
        canvas.words(0, top + 31, name, bold=True)
        for index, (label, call) in enumerate(zip(labels, calls, strict=True)):
            kind = outcome(call)
            canvas.box(
                left + index * tile,
                top,
                tile - 4,
                _BAR,
                OUTCOMES[kind],
                str(label),
                title=f"{call.arguments}: {call.outcome}",
            )
        compiled = counted(calls).get("compiled", 0)
        canvas.words(WIDTH, top + 32, f"{compiled} compiled", anchor="end", bold=True)
    shown = {kind for calls in several.values() for kind in counted(calls)}
    alt = " ".join(f"{name}: {_in_words(calls)}." for name, calls in several.items())
    legend = key({MEANT[kind]: colour for kind, colour in OUTCOMES.items() if kind in shown})
    return Drawing(canvas.svg(), f"{what}: {alt}", caption, table or _table(several, shown), provenance, legend)


SIGNS = {"as predicted": "blue", "compiled": "orange", "wrong": "vermillion"}
"""What a tile of `predicted` says, and its colour."""


def predicted(
    events: Mapping[str, tuple[bool, str, bool, str]], caption: str = "", provenance: object | None = None
) -> Drawing:
    """A row for each thing that happens to a model: what the guards said of the next call, what torch did, the result.

    Each is (forecast of a recompile, what torch did, whether the result is eager's, the guard that fails or nothing).
    Raises ValueError without an event.
    """
    if not events:
        raise ValueError("nothing to draw: give at least one event")
    canvas = Canvas(size=20)
    for x, head in zip(_COLUMNS, ("the guards say", "torch", "the result"), strict=True):
        canvas.words(x, 20, head, size=18)
    for at, (name, (recompiles, done, right, _)) in enumerate(events.items()):
        top = _HEAD + at * 38
        canvas.words(0, top + 22, name)
        made = SIGNS["compiled"]
        cells = (
            ("one fails" if recompiles else "all hold", made if recompiles else SIGNS["as predicted"]),
            (done, made if done == "compiled" else SIGNS["as predicted"]),
            ("as eager" if right else "wrong", SIGNS["as predicted" if right else "wrong"]),
        )
        for x, (text, colour) in zip(_COLUMNS, cells, strict=True):
            canvas.box(x, top, 195, 30, colour, text)
    rows = [(name, said, done, right, guard or None) for name, (said, done, right, guard) in events.items()]
    alt = " ".join(
        f"{name}: the guards say {'recompile' if said else 'reuse'}, torch {done}, "
        f"the result is {'right' if right else 'wrong'}."
        for name, said, done, right, _ in rows
    )
    table = Table(["what happens", "recompiles?", "torch", "result as eager", "the guard that fails"], rows)
    return Drawing(canvas.svg(), alt, caption, table, provenance)


_COLUMNS = (340, 560, 780)


def _table(several: Mapping[str, Sequence[WatchedCall]], shown: set[str]) -> Table:
    kinds = [kind for kind in OUTCOMES if kind in shown]
    rows = [(name, *(counted(calls).get(kind, 0) for kind in kinds)) for name, calls in several.items()]
    return Table(["calls", *kinds], rows)


def _in_words(calls: Sequence[WatchedCall]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counted(calls).items())
