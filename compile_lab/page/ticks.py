"""Which values a logarithmic axis names: left alone, plotly names single digits between its powers of ten."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

from .units import number

MOST = 8
"""So many names stand side by side without touching."""
UNEVEN = 2.5
"""Places are no scale if one gap is more than so many times another: names would touch, or a stretch have none."""


def ticks(values: Iterable[float], measured: bool = False) -> dict[str, Any]:
    """Of plotly's axis with these values, all above 0: ``tickvals`` and ``ticktext``; nothing if fewer than two fit.

    ``measured``: they are the places where something was measured, and are named themselves if they make a scale.
    """
    ordered = sorted(set(values))
    at = (measured and _themselves(ordered)) or _round(ordered[0], ordered[-1])
    return {"tickvals": at, "ticktext": [_name(value) for value in at]} if len(at) > 1 else {}


def _themselves(ordered: list[float]) -> list[float]:
    """All, or every second, third, …; nothing if they make no scale."""
    gaps = [math.log(after / before) for before, after in itertools.pairwise(ordered)]
    if not gaps or max(gaps) > UNEVEN * min(gaps):
        return []
    return ordered[:: math.ceil(len(ordered) / MOST)]


def _round(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade, or 1 of each, or of every second, …: the first of these that are few enough."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    scales = [[float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]]
    scales += ([float(f"1e{power}") for power in powers if power % step == 0] for step in range(1, len(powers)))
    within = ([value for value in scale if low <= value <= high] for scale in scales)
    return next(scale for scale in within if len(scale) <= MOST)


def _name(value: float) -> str:
    return number(value) if isinstance(value, int) or 1e-3 <= value < 1e6 else f"{value:.0e}"
