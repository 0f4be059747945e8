"""A caching allocator's memory as a map: every segment a row, block by block, what is in use and what lies free."""

from __future__ import annotations

from compile_lab.doors import door
from compile_lab.memory.caching import CachingAllocator
from compile_lab.page.canvas import Canvas, key, round_ticks
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import unit_of, with_unit

_LEFT, _WIDE, _ROW = 8, 980, 16
_MOST = 24
"""Segments that are drawn, the largest first."""


@door
def memory_map(allocator: CachingAllocator, caption: str = "", provenance: object = None) -> Drawing:
    """Each of the largest segments to scale, block by block; the table has all of them by size.

    Raises ValueError for an allocator that has reserved nothing.

    >>> from chapters.memory_lifetimes.caching_view import memory_map
    >>> from compile_lab.memory.caching import replay
    >>> figures, allocator = replay([[("weights", 3_000_000)]])
    >>> memory_map(allocator).alt
    '1 segments, 21 MB reserved. Tensors use 3 MB of it; 18 MB lie free, 86%.'
    """
    segments = sorted(allocator.segments, key=lambda each: -each.nbytes)
    if not segments:
        raise ValueError("nothing is reserved: allocate something first")
    canvas, largest = Canvas(size=16), segments[0].nbytes
    for row, segment in enumerate(segments[:_MOST]):
        for block in segment.blocks:
            used = block.owner is not None
            told = f"{with_unit(block.nbytes)} {'in use' if used else 'free'}"
            x, wide = _LEFT + _WIDE * block.start / largest, _WIDE * block.nbytes / largest
            canvas.box(x, row * _ROW, max(wide, 0.5), _ROW - 4, "blue" if used else "orange", title=told)
    unit, size = unit_of(largest)
    canvas.axis(_LEFT, min(len(segments), _MOST) * _ROW + 4, _WIDE, round_ticks(largest / size, unit))
    reserved, allocated = allocator.reserved_nbytes, allocator.allocated_nbytes
    alt = (
        f"{len(segments)} segments, {with_unit(reserved)} reserved. Tensors use {with_unit(allocated)} of it; "
        f"{with_unit(reserved - allocated)} lie free, {1 - allocated / reserved:.0%}."
    )
    counts: dict[int, list[int]] = {}
    for each in segments:
        counts.setdefault(each.nbytes, []).append(sum(b.nbytes for b in each.blocks if b.owner is None))
    rows = [(with_unit(nbytes), len(free), with_unit(sum(free))) for nbytes, free in counts.items()]
    table = Table(["segment", "how many", "free in them"], rows, align="lrr")
    return Drawing(canvas.svg(), alt, caption or alt, table, provenance, key({"in use": "blue", "free": "orange"}))
