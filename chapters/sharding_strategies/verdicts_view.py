"""Many rulings in one picture: a field for each operator and placement, and what share of an audit came out how."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compile_lab.devices.dtensor import HANGS, PAID, REFUSED, UNASKED, UNCLEAR, WRONG, Ruling
from compile_lab.doors import door
from compile_lab.page import marks, tables
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Cell, Segment
from compile_lab.page.tables import Table
from compile_lab.page.units import with_unit, without_namespace

from .audit import Audit, Row
from .view import COLOURS, KIND_TEXT

_PLACES = ("R", "S", "P", "all S")


@door
def grid(rulings: Mapping[tuple[str, str], Ruling], caption: str = "") -> Drawing:
    """A row for each operator, a column for each placement of its first tensor; a colour says what came of it.

    A field has where the result then is, after what a rank sends for it, if anything. Raises ValueError for none.

    >>> from chapters.sharding_strategies.verdicts_view import grid
    >>> from compile_lab.devices.dtensor import Ruling
    >>> grid({("sum", "R"): Ruling("free", out=("R",)), ("sum", "S(0)"): Ruling("free", out=("P(sum)",))}).table
    operator     R           S(0)
    ────────  ────────  ─────────────
    sum       free → R  free → P(sum)
    """
    if not rulings:
        raise ValueError("rulings is empty: give at least one, as layout_rulings does")
    names = list(dict.fromkeys(name for name, _ in rulings))
    words = list(dict.fromkeys(word for _, word in rulings))
    asked = [[rulings.get((name, word)) for word in words] for name in names]
    counts = Counter(one.kind for one in rulings.values())
    return marks.cells(
        {"": [[_field(one) for one in row] for row in asked]},
        rows=names,
        columns=words,
        title=f"{len(rulings)} cases: {', '.join(f'{counts[kind]} {kind}' for kind in KIND_TEXT if counts[kind])}.",
        caption=caption,
        colours={KIND_TEXT[kind]: COLOURS[kind] for kind in KIND_TEXT},
        table=Table(
            ["operator", *words],
            [[name, *map(_summary, row)] for name, row in zip(names, asked, strict=True)],
            align="l" + "c" * len(words),
        ),
    )


def _field(one: Ruling | None) -> Cell:
    return Cell() if one is None else Cell(_cell(one), KIND_TEXT.get(one.kind, KIND_TEXT[UNCLEAR]), title=str(one))


def _cell(one: Ruling) -> str:
    if one.kind in (REFUSED, HANGS, WRONG):
        return one.kind if one.kind != WRONG else f"wrong {one.what}"
    place = plain(one.out[0]) if one.out else ""
    if one.kind == PAID:
        return " → ".join(filter(None, (with_unit(one.sent_nbytes).replace("bytes", "B"), place)))
    return place


def _summary(one: Ruling | None) -> str | None:
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
def shares(audit: Audit, caption: str = "", provenance: object | None = None) -> Drawing:
    """A bar for each kind of placement of the first tensor: what share of its cases came out how; as a table, too.

    Cases on uneven or empty shards are among them. Raises ValueError for an audit without a case.

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.verdicts_view import shares
    >>> rows = [Row("sum", at, "value", "even", kind, cases=2) for at, kind in (("R", "free"), ("S(0)", "refused"))]
    >>> shares(Audit(2, 6, 0, "sum", ("sum",), rows)).title
    '0.0 % of 4 cases of 1 operators are wrong, without an error.'
    """
    rows = [row for row in audit.rows if row.asked == "value" and row.kind != UNASKED]
    if not rows:
        raise ValueError("the audit has no case that asks for a value")
    counted = {name: _cases(row for row in rows if _place(row) == name) for name in _PLACES}
    counted = {"all": _cases(rows)} | {name: found for name, found in counted.items() if found}
    total, wrong = counted["all"].total(), counted["all"][WRONG]
    columns = ["first tensor", "cases", *KIND_TEXT.values()]
    body: list[tuple[tables.Cell, ...]] = [
        (_PLACE_TEXT[name], found.total(), *(found[kind] for kind in KIND_TEXT)) for name, found in counted.items()
    ]
    return marks.segments(
        [
            marks.Row(
                _PLACE_TEXT[name],
                [
                    Segment(KIND_TEXT[kind], share, words=f"{share:.1f} %", title=f"{KIND_TEXT[kind]}: {found[kind]:,}")
                    for kind in KIND_TEXT
                    if (share := 100 * found[kind] / found.total())
                ],
                f"{found.total():,} cases",
                strong=name == "all",
            )
            for name, found in counted.items()
        ],
        Axis("of the cases", "%", until=100),
        title=f"{100 * wrong / total:.1f} % of {total:,} cases of {len(audit.operators()):,} operators are wrong, "
        "without an error.",
        caption=caption,
        colours={KIND_TEXT[kind]: COLOURS[kind] for kind in KIND_TEXT},
        provenance=provenance,
        table=Table(columns, body, align="l" + "r" * (len(columns) - 1)),
    )


_PLACE_TEXT = {"all": "all", "R": "replicated", "S": "sharded", "P": "partial", "all S": "all sharded"}


def _place(row: Row) -> str:
    return "all S" if row.layout.startswith("all") else row.layout[0]


def _cases(rows: Iterable[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.kind] += row.cases
    return found


@door
def with_verdict(audit: Audit, kind: str, places: Sequence[str] = _PLACES, quantity: str = "value") -> tuple[str, ...]:
    """The operators of the audit with a case of this kind, the first tensor in one of these places (R, S, P, all S).

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.verdicts_view import with_verdict
    >>> rows = Row("sum", "R", "value", "even", "free"), Row("amax", "P(max)", "value", "even", "wrong")
    >>> with_verdict(Audit(2, 6, 0, "*", ("amax", "sum"), rows), "wrong")
    ('amax',)
    """
    rows = (row for row in audit.rows if row.kind == kind and row.asked == quantity and _place(row) in places)
    return tuple(sorted({without_namespace(row.operator) for row in rows}))
