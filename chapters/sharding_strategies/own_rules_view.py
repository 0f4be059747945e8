"""A rule of one's own as a reader sees it: the same calls without it and with it."""

from __future__ import annotations

from compile_lab.devices.dtensor import FREE, HANGS, PAID, REFUSED, UNASKED, UNCLEAR, WRONG
from compile_lab.doors import door
from compile_lab.page.tables import Table

from .audit import Row
from .own_rules import Judged

_WORST = (WRONG, HANGS, UNCLEAR, REFUSED, PAID, FREE, UNASKED)


@door
def judged(found: Judged, caption: str = "") -> Table:
    """One row a placement and question: the worst verdict without the rule and with it, and bytes a rank sends.

    >>> from chapters.sharding_strategies.audit import Row
    >>> from chapters.sharding_strategies.own_rules import Judged
    >>> from chapters.sharding_strategies.own_rules_view import judged
    >>> judged(Judged("aten.cumsum.default", (), (Row("cumsum", "S(0)", "value", "even", "wrong"),)))
    placements  asked  without the rule  sends, bytes  with it    sends, bytes
    ──────────  ─────  ────────────────  ────────────  ─────────  ─────────────
    S(0)        value  –                            –  **wrong**              –
    """
    keys = dict.fromkeys((row.layout, row.asked) for row in (*found.before, *found.after))
    rows = []
    for layout, asked in keys:
        before, after = (
            [row for row in side if (row.layout, row.asked) == (layout, asked)] for side in (found.before, found.after)
        )
        rows.append((layout, asked, _worst(before), _bytes(before), _worst(after), _bytes(after)))
    columns = ["placements", "asked", "without the rule", "sends, bytes", "with it", "sends, bytes "]
    return Table(columns, rows, caption, align="lllrlr")


def _worst(rows: list[Row]) -> str | None:
    kinds = [row.kind for row in rows if row.kind != UNASKED]
    kind = min(kinds, key=_WORST.index, default=None)
    return f"**{kind}**" if kind in (WRONG, HANGS) else kind


def _bytes(rows: list[Row]) -> int | None:
    sent = [row.nbytes for row in rows if row.kind == PAID]
    return max(sent) if sent else None
