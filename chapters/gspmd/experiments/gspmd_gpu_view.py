"""What the recording ``gspmd_gpu`` shows: what each of XLA's pipelines sends for one block in tensor parallel."""

from dataclasses import dataclass

from compile_lab.doors import door
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit
from compile_lab.recordings import Recording


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
