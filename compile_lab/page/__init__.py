"""What a chapter shows: tables, figures, explorers, verdicts, and numbers in units that a person would use.

Plain Python without torch, so that it runs in a browser too.
"""

from .axes import Range
from .claims import Verdict, judged
from .explore import Explorer
from .figures import Series, bars, lines
from .predict import Prediction
from .tables import Code, Table
from .units import microseconds, with_unit

__all__ = [
    "Code",
    "Explorer",
    "Prediction",
    "Range",
    "Series",
    "Table",
    "Verdict",
    "bars",
    "judged",
    "lines",
    "microseconds",
    "with_unit",
]
