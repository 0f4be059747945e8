"""What the recording ``gspmd_gpu`` shows: what each of XLA's pipelines sends, for a block and for one sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from compile_lab.doors import door
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit
from compile_lab.recordings import Recording

from ..gspmd_block import LAYOUTS
from ..gspmd_side_by_side import BATCH, DIM, HEADS, LENGTH, formula
from ..gspmd_view import collectives_in_words

CHAPTERS = "64 wide"
"""The size of the chapter's own block, for which there is a formula."""


@dataclass(frozen=True)
class Sent:
    """The all-reduces of a step, and the bytes that a device sends for them."""

    all_reduces: int
    nbytes: int


@door
def sent(recording: Recording, size: str) -> dict[tuple[str, str], Sent]:
    """By pipeline and way of writing the block, what was compiled for that size.

    >>> from compile_lab.recordings import load
    >>> sent(load("gspmd_gpu"), "768 wide")["GPU", "by hand"].all_reduces
    4

    Raises ValueError, naming those there are, for another size.
    """
    programs = [each for each in recording.result["programs"] if each["size"] == size]
    if not programs:
        raise ValueError(f"size={size!r}: {recording.name} has {', '.join(map(repr, recording.result['sizes']))}")
    return {
        (each["pipeline"], each["written"]): Sent(
            sum(one["count"] for one in each["collectives"] if one["kind"] == "all_reduce"),
            sum(one["sent_nbytes"] for one in each["collectives"]),
        )
        for each in programs
    }


@door
def table(recording: Recording, size: str) -> Table:
    """A row for each program; the last column has what is sent in parts of what the plan by hand sends."""
    found = sent(recording, size)
    rows = [
        (
            pipeline,
            written,
            one.all_reduces,
            with_unit(one.nbytes),
            f"{one.nbytes / found[pipeline, 'by hand'].nbytes:.1f}×",
        )
        for (pipeline, written), one in found.items()
    ]
    batch, length, width, _ = recording.result["sizes"][size]
    caption = f"A step of one block, {batch} × {length} tokens, {width} wide, on {recording.result['devices']} devices"
    columns = ["pipeline", "written", "all-reduces", "a device sends", "by hand = 1"]
    return Table(columns, rows, f"{caption} · {recording.provenance}", align="llrrr")


@door
def layouts_table(recording: Recording) -> Table:
    """A row for each layout of the chapter's block: what both pipelines send, and the formula where there is one.

    Raises ValueError for a recording of another block than the chapter's.
    """
    if (shape := tuple(recording.result["sizes"][CHAPTERS])) != (BATCH, LENGTH, DIM, HEADS):
        raise ValueError(
            f"{recording.name} is of a block {shape}: the formula is that of {(BATCH, LENGTH, DIM, HEADS)}"
        )
    devices = recording.result["devices"]
    found: dict[str, dict[str, str]] = {}
    for each in recording.result["layouts"]:
        if each["size"] == CHAPTERS:
            found.setdefault(each["layout"], {})[each["pipeline"]] = _summary(_recorded(each["collectives"]))
    rows = [(name, told["CPU"], told["GPU"], _by_formula(name, devices)) for name, told in found.items()]
    columns = ["layout", "XLA's pipeline for CPUs", "for GPUs", "by the formula"]
    caption = f"Collectives of a step of the block on {devices} devices, and what each sends on a ring"
    return Table(columns, rows, f"{caption} · {recording.provenance}")


def _by_formula(layout: str, devices: int) -> str:
    rows = formula(layout, devices) if layout in LAYOUTS else None
    return _summary(rows) if rows else ""


@door
def payload_nbytes(recording: Recording, pipeline: str, dtype: str) -> int:
    """Bytes of the tensors that an MLP's one sum adds up, by pipeline, for arguments of this dtype.

    >>> from compile_lab.recordings import load
    >>> payload_nbytes(load("gspmd_gpu"), "GPU", "bfloat16")
    16384

    Raises ValueError, naming those there are, for another pipeline or dtype.
    """
    sums = {
        (each["pipeline"], each["dtype"]): sum(one["payload_nbytes"] for one in each["collectives"])
        for each in recording.result["dtypes"]
    }
    if (pipeline, dtype) not in sums:
        known = ", ".join(" ".join(each) for each in sums)
        raise ValueError(f"pipeline={pipeline!r}, dtype={dtype!r}: {recording.name} has {known}")
    return sums[pipeline, dtype]


def _summary(collectives: Sequence[Any]) -> str:
    """Counts by kind, and what a device sends; of a `Collective`, or of what is recorded of one."""
    sent_nbytes = sum(each.sent_nbytes for each in collectives)
    return f"{collectives_in_words(collectives)}; {sent_nbytes:,.0f} B" if collectives else "nothing"


def _recorded(collectives: Sequence[Mapping[str, Any]]) -> list[SimpleNamespace]:
    return [SimpleNamespace(**each) for each in collectives]
