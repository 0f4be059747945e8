"""What DTensor adds to a call, as a reader sees it: plain and placed, with quartiles."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.doors import door
from compile_lab.page.tables import Table

from .dispatch_cost import DispatchCost


@door
def costs(rows: Sequence[DispatchCost], caption: str = "") -> Table:
    """One row a call: medians and quartiles in microseconds, what DTensor adds, and the first call.

    >>> from chapters.sharding_strategies.dispatch_cost import DispatchCost
    >>> from chapters.sharding_strategies.dispatch_cost_view import costs
    >>> costs([DispatchCost("x + x", (1.0, 1.1, 1.3), (20.0, 21.5, 24.0), first_us=900.0)])
    call      plain, CPU µs      DTensor, CPU µs  added  first call
    ─────  ────────────────  ───────────────────  ─────  ──────────
    x + x  1.1 (1.0 to 1.3)  21.5 (20.0 to 24.0)   20.4         900
    """
    told = [
        (each.name, _said(each.plain_us), _said(each.dtensor_us), f"{each.added_us:.1f}", f"{each.first_us:,.0f}")
        for each in rows
    ]
    columns = ["call", "plain, CPU µs", "DTensor, CPU µs", "added", "first call"]
    return Table(columns, told, caption, align="lrrrr")


def _said(quartiles: tuple[float, float, float]) -> str:
    low, median, high = quartiles
    return f"{median:.1f} ({low:.1f} to {high:.1f})"
