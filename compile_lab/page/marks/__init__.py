"""Pictures made of rows: segments, dots, lines, cells and nodes.

Rows in, picture out: axis, ticks, legend, table and the words for who cannot see it are derived. A mark is HTML whose
*positions* are shares of its width and whose *type* is in CSS pixels (`marks.css`), so a phone lays it out again and no
letter gets smaller. Its `title` is a sentence that says what is to be seen, computed by whoever calls.
"""

from .common import Axis, short
from .grids import Cell, Node, cells, nodes
from .plane import Line, lines
from .rows import Row, Segment, bars, dots, dotted, segments

__all__ = [
    "Axis", "Cell", "Line", "Node", "Row", "Segment",
    "bars", "cells", "dots", "dotted", "lines", "nodes", "segments", "short",
]  # fmt: skip
