"""Many rulings in one picture: a square for each operator and placement, and what share of an audit came out how."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from compile_lab.devices.dtensor import FREE, HANGS, PAID, REFUSED, UNASKED, UNCLEAR, WRONG, Ruling
from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit, without_namespace

from .audit import Audit, Row
from .dtensor_view import COLOURS, SAID

ORDER = (FREE, PAID, REFUSED, HANGS, UNCLEAR, WRONG)
_ROW, _GAP, _LEFT = 34, 4, 220
_PLACES = ("R", "S", "P", "all S")


@door
def grid(rulings: Mapping[tuple[str, str], Ruling], caption: str = "", *, where: bool = True) -> Drawing:
    """A row for each operator, a column for each placement of its first tensor; a colour says what came of it.

    A square has where the result then is, after what a rank sends for it, if anything; with ``where`` off only the
    bytes. Raises ValueError without a ruling.

    >>> from chapters.sharding_strategies.verdicts_view import grid
    >>> from compile_lab.devices.dtensor import Ruling
    >>> grid({("sum", "R"): Ruling("free", out=("R",)), ("sum", "S(0)"): Ruling("free", out=("P(sum)",))}).table
    operator     R           S(0)
    ────────  ────────  ─────────────
    sum       free → R  free → P(sum)
    """
    if not rulings:
        raise ValueError("rulings is empty: give at least one, as layouts_asked does")
    names = list(dict.fromkeys(name for name, _ in rulings))
    words = list(dict.fromkeys(word for _, word in rulings))
    canvas = Canvas()
    wide = (canvas.width - _LEFT) / len(words)
    for at, word in enumerate(words):
        canvas.words(_LEFT + (at + 0.5) * wide, 18, word, anchor="middle", code=True)
    for row, name in enumerate(names):
        y = 30 + row * (_ROW + _GAP)
        canvas.words(0, y + 23, name, code=True, size=17)
        for at, word in enumerate(words):
            if (one := rulings.get((name, word))) is not None:
                box = _LEFT + at * wide + _GAP / 2, y, wide - _GAP, _ROW
                title = f"{name} on {word}: {one}"
                canvas.box(*box, COLOURS.get(one.kind, "grey"), _cell(one, where), title=title, size=16)
    counts = Counter(one.kind for one in rulings.values())
    told = ", ".join(f"{counts[kind]} {SAID[kind]}" for kind in ORDER if counts[kind])
    colours = {SAID[kind]: COLOURS[kind] for kind in ORDER if counts[kind]}
    table = Table(
        ["operator", *words],
        [[name, *(_told(rulings.get((name, word))) for word in words)] for name in names],
        align="l" + "c" * len(words),
    )
    return Drawing(canvas.svg(), f"{len(names)} operators by {len(words)} placements: {told}", caption, table, None,
                   key(colours))  # fmt: skip


def _cell(one: Ruling, where: bool) -> str:
    if one.kind in (REFUSED, HANGS, WRONG):
        return one.kind if one.kind != WRONG else f"wrong {one.what}"
    place = plain(one.out[0]) if one.out and where else ""
    if one.kind == PAID:
        return " → ".join(filter(None, (with_unit(one.sent_nbytes), place)))
    return place


def _told(one: Ruling | None) -> str | None:
    if one is None:
        return None
    sent = f", {with_unit(one.sent_nbytes)} by {one.sent[0].kind}" if one.sent else ""
    after = f" → {plain(one.out[0])}" if one.out else ""
    return f"{one.kind}{after}{sent}"


def plain(word: str) -> str:
    """A placement in a few letters: torch's own kinds of partial value by what is still due."""
    if word.startswith("MaskP"):
        return "P(mask)"
    return re.sub(r"_NormP\(.*\)", "P(norm)", word)


@door
def shares(audit: Audit, caption: str = "", provenance: object | None = None, asked: str = "value") -> Drawing:
    """A bar for each kind of placement of the first tensor: what share of its cases came out how; as a table, too.

    Cases on uneven or empty shards are among them. Raises ValueError for an audit without a case.

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.verdicts_view import shares
    >>> rows = [Row("sum", at, "value", "even", kind, cases=2) for at, kind in (("R", "free"), ("S(0)", "refused"))]
    >>> shares(Audit(2, 6, 0, "sum", ("sum",), rows)).alt
    'Of 4 cases of 1 operators: 50.0% right, and nothing is sent, 50.0% refused'
    """
    rows = [row for row in audit.rows if row.asked == asked and row.kind != UNASKED]
    if not rows:
        raise ValueError(f"the audit has no case that asks for a {asked}")
    counted = {name: _cases(row for row in rows if _place(row) == name) for name in _PLACES}
    counted = {"all": _cases(rows)} | {name: found for name, found in counted.items() if found}
    canvas = Canvas()
    for row, (name, found) in enumerate(counted.items()):
        y, x, total = row * 50, 130.0, sum(found.values())
        canvas.words(0, y + 26, _SAID_PLACE[name], bold=name == "all")
        for kind in ORDER:
            wide = (canvas.width - 130) * found[kind] / total
            share = f"{found[kind] / total:.1%}" if found[kind] else ""
            if wide:
                title = f"{_SAID_PLACE[name]}, {SAID[kind]}: {found[kind]:,} of {total:,}"
                canvas.box(x, y + 2, wide, 36, COLOURS[kind], share, title=title)
            x += wide
    whole = counted["all"]
    told = ", ".join(f"{whole[kind] / whole.total():.1%} {SAID[kind]}" for kind in ORDER if whole[kind])
    columns = ["first tensor", "cases", *(SAID[kind] for kind in ORDER)]
    body = [(_SAID_PLACE[n], f.total(), *(f[kind] for kind in ORDER)) for n, f in counted.items()]
    return Drawing(
        canvas.svg(),
        f"Of {whole.total():,} cases of {len(audit.operators()):,} operators: {told}",
        caption,
        Table(columns, body, align="l" + "r" * (len(columns) - 1)),
        provenance,
        key({SAID[kind]: COLOURS[kind] for kind in ORDER if whole[kind]}),
    )


_SAID_PLACE = {"all": "all", "R": "replicated", "S": "sharded", "P": "partial", "all S": "all sharded"}


def _place(row: Row) -> str:
    return "all S" if row.layout.startswith("all") else row.layout[0]


def _cases(rows: object) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.kind] += row.cases
    return found


@door
def with_verdict(audit: Audit, kind: str, places: Sequence[str] = _PLACES, asked: str = "value") -> tuple[str, ...]:
    """The operators of the audit with a case of this kind, the first tensor in one of these places (R, S, P, all S).

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.verdicts_view import with_verdict
    >>> rows = Row("sum", "R", "value", "even", "free"), Row("amax", "P(max)", "value", "even", "wrong")
    >>> with_verdict(Audit(2, 6, 0, "*", ("amax", "sum"), rows), "wrong")
    ('amax',)
    """
    rows = (row for row in audit.rows if row.kind == kind and row.asked == asked and _place(row) in places)
    return tuple(sorted({without_namespace(row.operator) for row in rows}))
