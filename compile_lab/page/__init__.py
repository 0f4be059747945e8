"""What a chapter shows: tables, figures, explorers, verdicts, and numbers in units that a person would use.

Plain Python without torch, so that it runs in a browser too.
"""

from .axes import Range, Rows
from .canvas import Canvas
from .claims import Part, Split, Verdict
from .explore import Explorer
from .figures import Series, lines
from .headline import Headline
from .marks import bars, dots
from .predict import Prediction
from .tables import Code, Table
from .units import microseconds, with_unit

__all__ = [
    "Canvas",
    "Code",
    "Explorer",
    "Headline",
    "Part",
    "Prediction",
    "Range",
    "Rows",
    "Series",
    "Split",
    "Table",
    "Verdict",
    "bars",
    "dots",
    "lines",
    "microseconds",
    "with_unit",
]
