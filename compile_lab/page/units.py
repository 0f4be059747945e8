"""Numbers, bytes and operators in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MB = 1e6


def spread(found: Mapping[str, Any]) -> str:
    """A median with its quartiles."""
    low, median, high = (number(round(found[name], 1)) for name in ("low_us", "median_us", "high_us"))
    return f"{median} ({low} to {high})"


_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def said(nbytes: float) -> str:
    """Bytes in a unit that reads well: ``3.56 MB``, decimal."""
    unit, size = _unit(abs(nbytes))
    return f"{number(nbytes)} bytes" if unit == "bytes" else f"{nbytes / size:.3g} {unit}"


def short(op: str) -> str:
    """An operation without its namespace."""
    return op.removeprefix("aten.").removeprefix("prims.")


def _unit(nbytes: float) -> tuple[str, float]:
    return next(((unit, size) for unit, size in _UNITS if nbytes >= size), _UNITS[-1])


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


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


def gb(nbytes: float) -> str:
    """Bytes as a reader compares them: 3 figures, in GB, MB or kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}" if nbytes < 999.5 * size else f"{nbytes / size:,.0f} {unit}"
    return f"{nbytes:.0f} bytes"
