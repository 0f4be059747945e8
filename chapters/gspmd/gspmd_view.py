"""What XLA made of annotations, drawn: three systems side by side, a split that spreads, three ways to write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_lab.doors import check_whole, door
from compile_lab.page import marks
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Row, Segment
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit
from compile_lab.simulator.collectives import Collective

from .gspmd import Partitioned
from .gspmd_hlo import Sent
from .gspmd_propagation import Propagated
from .gspmd_side_by_side import SideBySide
from .gspmd_three_ways import JaxRefusal, Way

SYSTEMS = {"xla": "XLA", "dtensor": "DTensor, eager", "owed": "DTensor, gradients finished", "formula": "by formula"}
_KINDS = {
    "all-reduce": "vermillion",
    "all-gather": "sky",
    "reduce-scatter": "purple",
    "all-to-all": "green",
    "send": "grey",
}
_SPLITS = {"R": "grey", "S(0)": "blue", "S(1)": "orange", "S(2)": "green", "S(3)": "purple"}
_PARTS = (
    "x", "norm1", "q", "k", "v", "scores", "mixed", "out", "add1", "norm2", "up", "gelu", "down", "add2",
)  # fmt: skip


@door
def three_systems(rows: Sequence[SideBySide], caption: str = "") -> Drawing:
    """For each layout a bar for each system: bytes that a device sends with collectives on a ring, coloured by kind.

    A refusal has words in its bar's place. Raises ValueError for no rows.
    """
    if not rows:
        raise ValueError("rows is empty: hand over what side_by_side() gave")
    drawn = []
    for row in rows:
        for system, name in SYSTEMS.items():
            held, group = row.sent(system), f"{row.layout}, {row.devices} devices"
            if held is None and row.refused and system == "dtensor":
                drawn.append(Row(name, {}, "refused", group))
            if held is None or (system == "owed" and not held):
                continue
            sent = getattr(row, system)
            parts = [Segment(_kind(each), each.sent_nbytes / 1e3, words="", title=str(each)) for each in sent]
            count = sum(each.count for each in sent)
            drawn.append(Row(name, parts, f"{with_unit(held)}, {count} sent" if count else with_unit(held), group))
    pairs = [(row.sent("xla"), row.sent("formula")) for row in rows]
    ratios = [xla / formula for xla, formula in pairs if xla is not None and formula]
    apart = f"{min(ratios):.2g} to {max(ratios):.2g} times what the formula says" if ratios else "what no formula says"
    return marks.segments(
        drawn,
        Axis("a device sends", "kB"),
        title=f"With XLA a device sends {apart}.",
        caption=caption,
        colours=_KINDS,
        table=systems_table(rows),
    )


def _kind(each: Collective | Sent) -> str:
    return each.kind.replace("_", "-")


@door
def systems_table(rows: Sequence[SideBySide]) -> Table:
    """The same in words: each layout, each system, its collectives, and why DTensor refused."""
    told: list[tuple[str | None, ...]] = []
    for row in rows:
        for system, name in SYSTEMS.items():
            if (held := row.payload(system)) is not None:
                counts, bytes_ = collectives_in_words(getattr(row, system)), (f"{row.sent(system):,.0f}", f"{held:,}")
                told.append((f"{row.layout}, {row.devices}", name, counts, *bytes_))
        if row.refused:
            told.append((f"{row.layout}, {row.devices}", SYSTEMS["dtensor"], f"refused: {row.refused}", None, None))
    columns = ["layout", "system", "collectives", "a device sends", "whole tensors"]
    return Table(columns, told, align="lllrr")


def collectives_in_words(rows: Sequence[Collective]) -> str:
    """Counts by kind; a count of 0 is of bytes that join a bucket which is there without them."""
    return ", ".join(f"{each.count or 'part of an'} {_kind(each)}" for each in rows) or "none"


@door
def collectives_table(program: Partitioned, caption: str = "") -> Table:
    """Each collective of a compiled program: kind, shapes on a device, bytes, and what jax calls its operation."""
    rows = [
        (_kind(each), ", ".join(each.shapes), each.times, f"{each.payload_nbytes:,}", each.source)
        for each in program.sent
    ]
    return Table(["collective", "shapes", "times", "bytes", "belongs to"], rows, caption, align="llrrl")


@door
def splits(decision: Propagated, until: int | None = None, caption: str = "") -> Drawing:
    """A row for each part of the block, in order: where its result is split, and where its weight.

    With ``until``, what is known after so many of Shardy's steps. Raises ValueError for more steps than there are, and
    for the decision of a function that is no block.
    """
    final = decision.scopes()
    if missing := [name for name in _PARTS if name not in final]:
        raise ValueError(f"decision has no {', '.join(missing)}: this picture is of gspmd_block.block alone")
    if until is not None:
        check_whole("until", until, 0, len(decision.steps))
    known = final if until is None else decision.after(until)
    weights = [name for part in _PARTS if (name := f"{part}.weight") in final]
    split = [sum(known.get(name, "").startswith("S") for name in names) for names in (weights, _PARTS)]
    when = "As decided" if until is None else f"After {until} of {len(decision.steps)} steps"
    both = [(part, f"{part}.weight") for part in _PARTS]
    grid = [[_field(name, known, decision) if name in final else Cell() for name in names] for names in both]
    return marks.cells(
        {"": grid},
        rows=_PARTS,
        columns=["its value", "its weight"],
        title=f"{when}, {split[0]} of {len(weights)} weights and {split[1]} of {len(_PARTS)} values are split.",
        caption=f"{caption}; ★ was annotated" if caption else "★ was annotated; ? is not decided yet",
        colours={_split(word): colour for word, colour in _SPLITS.items()},
        table=Table(
            ["part", "value", "weight"],
            [(part, *(c.words for c in row)) for part, row in zip(_PARTS, grid, strict=True)],
        ),
    )


def _field(name: str, known: Mapping[str, str], decision: Propagated) -> Cell:
    word = known.get(name, "")
    return Cell((word or "?") + " ★" * (name in decision.given), _split(word) if word in _SPLITS else "")


def _split(word: str) -> str:
    return "whole" if word == "R" else f"split along {word}"


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
