"""Numbers, bytes, times and operators as a reader reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..doors import door

MB = 1e6
DECIMAL = {"GB": 1e9, "MB": MB, "kB": 1e3, "bytes": 1}
BINARY = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "bytes": 1}


def number(value: int | float) -> str:
    """How a number is printed in tables and figures: integers whole, with commas; other numbers to four figures."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def rounded(value: float, figures: int = 5) -> float:
    """So many significant figures: what a plot needs of a number."""
    return float(f"{value:.{figures}g}")


def significant(value: float, figures: int = 3) -> str:
    """To so many significant figures, and never as a power of ten for being large: ``0.0356``, ``1,010``."""
    value = rounded(value, figures)
    return f"{value:,.0f}" if abs(value) >= 10 ** (figures - 1) else f"{value:.{figures}g}"


def signed(value: float, form: str = ".1f") -> str:
    """A difference with its sign, a minus and not a hyphen; nothing before a zero: ``−0.9``, ``+12%``, ``0.0``."""
    text = format(value, f"+{form}")
    return text.replace("-", "−") if any(digit in "123456789" for digit in text) else text[1:]


def percent(share: float, places: int = 0) -> str:
    """A share of 1 in per cent, rounded to so many decimal places: ``63 %``."""
    return f"{100 * share:.{places}f} %"


def unit_of(nbytes: float, units: Mapping[str, float] = DECIMAL) -> tuple[str, float]:
    """The largest unit of which this is one or more, else the smallest, and its size in bytes: ("MB", 1e6)."""
    return next(((unit, size) for unit, size in units.items() if nbytes >= size), [*units.items()][-1])


@door
def with_unit(nbytes: float, units: Mapping[str, float] = DECIMAL) -> str:
    """Bytes in a unit that reads well, to three figures: ``3.56 MB``.

    >>> from compile_lab.page import with_unit
    >>> with_unit(3_560_000), with_unit(512)
    ('3.56 MB', '512 bytes')
    """
    unit, size = unit_of(abs(nbytes), units)
    if size == 1:
        return f"{number(nbytes)} {unit}"
    return f"{nbytes / size:.3g} {unit}" if abs(nbytes) < 999.5 * size else f"{nbytes / size:,.0f} {unit}"


def in_gb(nbytes: float) -> str:
    """Bytes in GB however few, so that all of a list compare: ``0.0356 GB``."""
    return f"{significant(nbytes / 1e9)} GB"


def with_quartiles(median: float, low: float, high: float) -> str:
    """A median and, in brackets, its quartiles: ``12.3 (12.1 to 13)``."""
    return "{} ({} to {})".format(*map(number, (median, low, high)))


@door
def microseconds(row: Mapping[str, Any]) -> str:
    """A recorded time with its quartiles, in µs to a tenth.

    >>> from compile_lab.page import microseconds
    >>> microseconds({"median_us": 12.34, "low_us": 12.1, "high_us": 13.02})
    '12.3 (12.1 to 13)'
    """
    return with_quartiles(*(round(row[name], 1) for name in ("median_us", "low_us", "high_us")))


def milliseconds(row: Mapping[str, Any]) -> str:
    """A recorded time with its quartiles, in ms."""
    return with_quartiles(*(row[name] / 1e3 for name in ("median_us", "low_us", "high_us")))


def without_namespace(op: str) -> str:
    """An operation as a reader calls it: ``mm.default`` of ``aten.mm.default``."""
    return op.removeprefix("aten.").removeprefix("prims.")
