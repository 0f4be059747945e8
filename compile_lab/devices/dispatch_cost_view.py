"""What DTensor adds to a call, as a reader sees it: plain and placed, with quartiles."""

from __future__ import annotations

from collections.abc import Sequence

from ..doors import door
from ..page.tables import Table
from .dispatch_cost import DispatchCost


@door
def costs(rows: Sequence[DispatchCost], caption: str = "") -> Table:
    """One row a call: medians and quartiles in microseconds, what DTensor adds, and the first call."""
    told = [
        (each.name, _said(each.plain_us), _said(each.dtensor_us), f"{each.added_us:.1f}", f"{each.first_us:,.0f}")
        for each in rows
    ]
    columns = ["call", "plain, CPU µs", "DTensor, CPU µs", "added", "first call"]
    return Table(columns, told, caption, align="lrrrr")


def _said(quartiles: tuple[float, float, float]) -> str:
    low, median, high = quartiles
    return f"{median:.1f} ({low:.1f} to {high:.1f})"
