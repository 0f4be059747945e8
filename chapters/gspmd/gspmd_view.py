"""What XLA made of annotations, drawn: three systems side by side, a split that spreads, three ways to write it."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.doors import check_whole, door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit
from compile_lab.simulator.collectives import Collective

from .gspmd import Partitioned
from .gspmd_propagation import Propagated
from .gspmd_side_by_side import SideBySide
from .gspmd_three_ways import JaxRefusal, Way

SYSTEMS = {"xla": "XLA", "dtensor": "DTensor, eager", "owed": "DTensor, gradients finished", "formula": "by formula"}
_KINDS = {
    "all_reduce": "vermillion",
    "all_gather": "blue",
    "reduce_scatter": "orange",
    "all_to_all": "purple",
    "send": "green",
}
_SPLITS = {"R": "grey", "S(0)": "blue", "S(1)": "orange", "S(2)": "green", "S(3)": "purple"}
_PLACES = {  # of the block: column, row
    "x": (0, 1), "norm1": (1, 1), "q": (2, 0), "k": (2, 1), "v": (2, 2), "scores": (3, 0.5), "mixed": (4, 1),
    "out": (5, 1), "add1": (6, 1), "norm2": (7, 1), "up": (8, 1), "gelu": (9, 1), "down": (10, 1), "add2": (11, 1),
}  # fmt: skip
_EDGES = (
    ("x", "norm1"), ("norm1", "q"), ("norm1", "k"), ("norm1", "v"), ("q", "scores"), ("k", "scores"),
    ("scores", "mixed"), ("v", "mixed"), ("mixed", "out"), ("out", "add1"), ("add1", "norm2"), ("norm2", "up"),
    ("up", "gelu"), ("gelu", "down"), ("down", "add2"),
)  # fmt: skip
_WIDE, _HIGH = 76, 40


@door
def three_systems(rows: Sequence[SideBySide], caption: str = "", provenance: object | None = None) -> Drawing:
    """For each layout a bar for each system: bytes that a device sends with collectives on a ring, coloured by kind.

    A refusal has words in its bar's place. Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("rows is empty: hand over what side_by_side() gave")
    most = max(each.sent(system) or 0 for each in rows for system in SYSTEMS) or 1
    canvas, left, y = Canvas(), 300, 4.0
    scale = (canvas.width - left - 190) / most
    for row in rows:
        canvas.words(0, y + 18, f"{row.layout}, {row.devices} devices", bold=True)
        for system, name in SYSTEMS.items():
            held = row.sent(system)
            if held is None and not (row.refused and system == "dtensor"):
                continue
            if system == "owed" and not held:
                continue
            y += 28
            canvas.words(left - 12, y + 17, name, anchor="end", size=16)
            if held is None:
                canvas.words(left, y + 17, "refused", colour="vermillion", size=16)
                continue
            x = left
            for each in getattr(row, system):
                width = each.sent_nbytes * scale
                title = f"{row.layout}, {name}: {each}"
                canvas.box(x, y, max(width, 1), 22, _KINDS.get(each.kind, "grey"), title=title)
                x += width
            count = sum(each.count for each in getattr(row, system))
            canvas.words(x + 8, y + 17, f"{with_unit(held)}, {count}" if count else with_unit(held), size=16)
        y += 46
    kinds = {each.kind for row in rows for system in SYSTEMS for each in getattr(row, system) or ()}
    legend = key({kind.replace("_", "-"): colour for kind, colour in _KINDS.items() if kind in kinds})
    return Drawing(canvas.svg(), _told(rows), caption, systems_table(rows), provenance, legend)


def _told(rows: Sequence[SideBySide]) -> str:
    said = [
        f"{row.layout} on {row.devices}: "
        + ", ".join(f"{name} {held:,.0f}" for system, name in SYSTEMS.items() if (held := row.sent(system)) is not None)
        for row in rows
    ]
    return f"Bytes that a device sends for one step of a block. {'; '.join(said)}."


@door
def systems_table(rows: Sequence[SideBySide], caption: str = "") -> Table:
    """The same in words: each layout, each system, its collectives, and why DTensor refused."""
    told = []
    for row in rows:
        for system, name in SYSTEMS.items():
            if (held := row.payload(system)) is not None:
                counts, bytes_ = collectives_in_words(getattr(row, system)), (f"{row.sent(system):,.0f}", f"{held:,}")
                told.append((f"{row.layout}, {row.devices}", name, counts, *bytes_))
        if row.refused:
            told.append((f"{row.layout}, {row.devices}", SYSTEMS["dtensor"], f"refused: {row.refused}", None, None))
    columns = ["layout", "system", "collectives", "a device sends", "whole tensors"]
    return Table(columns, told, caption, align="lllrr")


def collectives_in_words(rows: Sequence[Collective]) -> str:
    """Counts by kind; a count of 0 is of bytes that join a bucket which is there without them."""
    return ", ".join(f"{each.count or 'part of an'} {each.kind.replace('_', '-')}" for each in rows) or "none"


@door
def collectives_table(program: Partitioned, caption: str = "") -> Table:
    """Each collective of a compiled program: kind, shapes on a device, bytes, and what jax calls its operation."""
    rows = [
        (each.kind.replace("_", "-"), ", ".join(each.shapes), each.times, f"{each.payload_nbytes:,}", each.source)
        for each in program.sent
    ]
    return Table(["collective", "shapes", "times", "bytes", "belongs to"], rows, caption, align="llrrl")


@door
def spread(
    decision: Propagated, until: int | None = None, caption: str = "", provenance: object | None = None
) -> Drawing:
    """The block as a graph: each part coloured by where its result is split, each weight above the part that uses it.

    With ``until``, what is known after so many of Shardy's steps: the rest is dashed. Raises ValueError for more steps
    than there are, and for the decision of a function that is no block.
    """
    final = decision.scopes()
    if missing := [name for name in _PLACES if name not in final]:
        raise ValueError(f"decision has no {', '.join(missing)}: this picture is of gspmd_block.block alone")
    if until is not None:
        check_whole("until", until, 0, len(decision.steps))
    known = final if until is None else decision.after(until)
    canvas = Canvas(size=16)
    middle = {name: (_WIDE / 2 + 2 + column * 83.5, 72 + row * 130) for name, (column, row) in _PLACES.items()}
    for start, end in _EDGES:
        (x0, y0), (x1, y1) = middle[start], middle[end]
        colour = _SPLITS.get(known.get(start, ""), "grey")
        canvas.line([(x0 + _WIDE / 2, y0), (x1 - _WIDE / 2, y1)], colour, thick=4, dashed=start not in known)
    for name, (x, y) in middle.items():
        word = known.get(name, "")
        box = x - _WIDE / 2, y - _HIGH / 2, _WIDE, _HIGH
        told = f"{name}: {word or 'not decided yet'}"
        canvas.box(*box, _SPLITS.get(word, "grey"), f"{name}\n{word}", title=told, dashed=not word, size=15)
        if (weight := f"{name}.weight") in final:
            _weight(canvas, x, y - 46, weight, known, decision)
    used = dict.fromkeys(word for word in known.values() if word in _SPLITS)
    legend = key({f"split along {word}" if word != "R" else "whole": _SPLITS[word] for word in used})
    when = "as decided" if until is None else f"after {until} of {len(decision.steps)} steps"
    alt = f"The block's parts {when}: " + ", ".join(f"{name} {known.get(name, 'open')}" for name in _PLACES)
    return Drawing(canvas.svg(), alt, caption, None, provenance, legend)


def _weight(canvas: Canvas, x: float, y: float, name: str, known: dict[str, str], decision: Propagated) -> None:
    """A small box for a weight; a star if it was annotated."""
    word = known.get(name, "")
    star = " ★" if name in decision.given else ""
    title = f"{name}: {word or 'not decided yet'}{', annotated' if star else ''}"
    canvas.box(x - 36, y - 14, 72, 28, _SPLITS.get(word, "grey"), f"{word or '?'}{star}", title=title, dashed=not word)


@door
def ways_table(ways: Sequence[Way], caption: str = "") -> Table:
    """The three ways: what is written, the type that jax shows for the value in the middle, what is sent."""
    rows = [
        (each.name, each.source, ", ".join(each.types), collectives_in_words(each.program.collectives)) for each in ways
    ]
    return Table(["way", "written", "type of h", "sent"], rows, caption)


@door
def refusals_table(rows: Sequence[JaxRefusal], caption: str = "") -> Table:
    """What each way refuses, and what helps."""
    told = [(each.name, each.mode, each.error, each.helps) for each in rows]
    return Table(["program", "way", "error", "what helps"], told, caption)
