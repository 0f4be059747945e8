"""An audit as JSON that fits on a page: what is said twice is written once.

``rulings`` and ``layouts`` are numbered; a row is the text ``layout.ruling.cases.nbytes``; operators whose rows are all
alike share one text.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from compile_lab.doors import door

from .audit import Audit, Row

_BY_ROW = ("operator", "layout", "cases", "nbytes")


@door
def to_json(audit: Audit) -> dict[str, Any]:
    """The audit as plain JSON values, for `from_json`.

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.audit_table import to_json
    >>> row = Row("sum", "S(0)", "value", "even", "paid", sends="all_reduce", cases=3, nbytes=8)
    >>> to_json(Audit(ranks=2, samples=6, seed=0, only="sum", asked=("sum",), rows=(row,)))
    {'ranks': 2, 'samples': 6, 'seed': 0, 'only': 'sum', 'asked': 'sum', 'layouts': ['S(0)'], 'rulings':
    [{'asked': 'value', 'shards': 'even', 'kind': 'paid', 'sends': 'all_reduce'}], 'rows': {'0.0.3.8':
    'sum'}}
    """
    layouts: dict[str, int] = {}
    rulings: dict[tuple[tuple[str, str], ...], int] = {}
    texts: dict[str, list[str]] = {}
    for row in audit.rows:
        told = {name: value for name, value in asdict(row).items() if name not in _BY_ROW and value}
        numbers = layouts.setdefault(row.layout, len(layouts)), rulings.setdefault(tuple(told.items()), len(rulings))
        texts.setdefault(row.operator, []).append(".".join(map(str, (*numbers, row.cases, row.nbytes))))
    alike: dict[str, list[str]] = {}
    for operator, rows in texts.items():
        alike.setdefault(" ".join(rows), []).append(operator)
    return {
        **{name: getattr(audit, name) for name in ("ranks", "samples", "seed", "only")},
        "asked": " ".join(audit.asked),
        "layouts": list(layouts),
        "rulings": [dict(each) for each in rulings],
        "rows": {rows: " ".join(operators) for rows, operators in alike.items()},
    }


@door
def from_json(read: Mapping[str, Any]) -> Audit:
    """The audit that `to_json` wrote: the same rows, by operator.

    Raises ValueError for what is none.

    >>> from chapters.sharding_strategies.audit import Audit, Row
    >>> from chapters.sharding_strategies.audit_table import from_json, to_json
    >>> found = Audit(2, 6, 0, "sum", ("sum",), (Row("sum", "R", "value", "even", "free"),))
    >>> from_json(to_json(found)) == found
    True
    """
    try:
        rows = [
            _row(operator, text, read)
            for texts, operators in read["rows"].items()
            for operator in operators.split()
            for text in texts.split()
        ]
        asked = read["asked"].split()
        order = {name: index for index, name in enumerate(asked)}
        rows.sort(key=lambda row: order[row.operator])  # a stable sort: within an operator, as they were
        return Audit(read["ranks"], read["samples"], read["seed"], read["only"], tuple(asked), tuple(rows))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            f"no audit: {type(error).__name__}: {error}; take the result of recordings.load('dtensor'), or make one "
            "with python -m chapters.record dtensor"
        ) from error


def _row(operator: str, text: str, read: Mapping[str, Any]) -> Row:
    layout, ruling, cases, nbytes = map(int, text.split("."))
    told = read["rulings"][ruling]
    given = {field.name: told[field.name] for field in fields(Row) if field.name in told}
    return Row(operator=operator, layout=read["layouts"][layout], cases=cases, nbytes=nbytes, **given)
