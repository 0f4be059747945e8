"""A sharding rule of one's own, judged as the audit judges torch's: on real ranks, against one process.

`registered` puts a rule in place for a while by torch's public ``register_sharding``; `judge_rule` asks about the same
calls before and with it. A rule is believed by DTensor whatever it says, so a wrong one shows here alone.
"""

import contextlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from compile_lab._torch.distributed import rules_restored
from compile_lab.devices import ranks as gangs
from compile_lab.devices.dtensor import (
    FREE,
    HANGS,
    PAID,
    UNASKED,
    WRONG,
    Judge,
    PlacedCall,
    Ruling,
    check_layout,
    told_of,
)
from compile_lab.doors import check_amount, check_whole, door, shown

from .audit import Row, rows_of
from .audit_cases import GRADIENT, VALUE, cases_of, matching

Rule = Callable[..., Sequence[tuple[list[Any], list[Any]]]]


@dataclass(frozen=True)
class Judged:
    """The same calls without and with a rule, as rows of the audit."""

    overload: str
    before: tuple[Row, ...]
    after: tuple[Row, ...]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Cases by kind, without and with the rule."""
        tallies = [Counter({row.kind: 0 for row in rows}) for rows in (self.before, self.after)]
        for tally, rows in zip(tallies, (self.before, self.after), strict=True):
            for row in rows:
                tally[row.kind] += row.cases
        kinds = dict.fromkeys([*tallies[0], *tallies[1]])
        return {kind: (tallies[0][kind], tallies[1][kind]) for kind in kinds if kind != UNASKED}

    @property
    def wrong(self) -> tuple[Row, ...]:
        """What is wrong, or hangs, with the rule."""
        return tuple(row for row in self.after if row.kind in (WRONG, HANGS))


@door
@contextlib.contextmanager
def registered(overload: str, rule: Rule) -> Iterator[None]:
    """While the block runs, DTensor goes by ``rule`` for the operator, such as ``"aten.cumsum.default"``.

    ``rule`` is what ``register_sharding`` takes: called with the operator's arguments, tensors as specs, it returns
    pairs of placements, of the results and of the arguments, None for what is no tensor. DTensor remembers its
    decisions and does not forget them when a rule comes or goes: here they are forgotten, on both sides of the block.
    Raises ValueError for an operator that torch does not have.

    By this rule a running sum along rows that are cut sends nothing, and is wrong:

    >>> import torch
    >>> from chapters.sharding_strategies.candidates import candidates
    >>> from chapters.sharding_strategies.own_rules import registered, wrong_cumsum_rule
    >>> with registered("aten.cumsum.default", wrong_cumsum_rule):
    ...     candidates(torch.cumsum, (torch.ones(8, 4), 0), ("S(0)",)).sent
    ()
    """
    operator = resolved(overload)
    with rules_restored(operator):
        register_sharding(operator)(rule)
        yield


@door
def judge_rule(
    overload: str,
    rule: Rule,
    cases: str | Sequence[PlacedCall],
    *,
    ranks: int = 2,
    samples: int = 2,
    limit_s: float = 10.0,
) -> Judged:
    """Ask about calls without the rule and with it, on ``ranks`` real ranks.

    ``cases`` are the audit's own of an operator, by its name there (``"cdist"``), on up to ``samples`` of torch's
    sample inputs and with gradients where the value is right; or calls of yours. The rule is gone afterwards.

    Raises ValueError for an operator that torch, or the audit, does not have, and for a call that does not fit.
    """
    check_whole("ranks", ranks, 2, 64)
    check_whole("samples", samples, 1, 50)
    check_amount("limit_s", limit_s)
    resolved(overload)
    if isinstance(cases, str):
        if "*" in cases or matching(cases) != (cases,):
            raise ValueError(f"cases={shown(cases)}: name one operator of the audit, such as 'cdist'")
    else:
        for call in cases:
            check_layout(call, ranks)
    asked = cases if isinstance(cases, str) else tuple(cases)
    before, after = _told(overload, rule, asked, ranks, samples, limit_s)
    return Judged(overload, before, after)


@door
def resolved(overload: str) -> Any:
    """torch's operator of that name: ``aten.cumsum.default``. Raises ValueError if there is none.

    >>> from chapters.sharding_strategies.own_rules import resolved
    >>> resolved("aten.cumsum.default")
    <OpOverload(op='aten.cumsum', overload='default')>
    >>> resolved("aten.cumsum.into")
    Traceback (most recent call last):
        ...
    ValueError: torch has no operator aten.cumsum.into; there are default, out
    """
    if not re.fullmatch(r"\w+\.\w+\.\w+", overload):
        raise ValueError(
            f"overload={shown(overload)}: it is written as aten.cumsum.default: library, operator, variant"
        )
    library, name, variant = overload.split(".")
    packet = getattr(getattr(torch.ops, library), name, None)
    if packet is None or variant not in packet.overloads():
        there = f"; there are {', '.join(packet.overloads())}" if packet is not None else ""
        raise ValueError(f"torch has no operator {overload}{there}")
    return getattr(packet, variant)


def _told(
    overload: str, rule: Rule, asked: Any, ranks: int, samples: int, limit_s: float
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    with tempfile.TemporaryDirectory(prefix="rule-") as folder:
        given = overload, rule, asked, samples, limit_s, folder
        try:
            before, after = gangs.run(_on_rank, ranks, *given, timeout=gangs.LIMIT_S + limit_s, echo=False)[0]
        except gangs.RankFailed as failed:
            note = Path(folder) / "asking.0"
            if not note.exists():
                raise
            with_rule, example = json.loads(note.read_text())
            lines = [_line(overload, "", VALUE, Ruling(HANGS, detail=told_of(failed, Path(folder))), example)]
            before, after = ([], lines) if with_rule else (lines, [])
    return rows_of(before), rows_of(after)


def _on_rank(
    overload: str, rule: Rule, asked: Any, samples: int, limit_s: float, folder: str
) -> list[list[dict[str, Any]]]:
    judge = Judge(limit_s, folder)
    calls = list(_calls(asked, judge.ranks, samples))
    told: list[list[dict[str, Any]]] = []
    for with_rule in (False, True):
        lines: list[dict[str, Any]] = []
        value = Ruling(UNASKED)
        with registered(overload, rule) if with_rule else contextlib.nullcontext():
            for name, layout, kind, call, example in calls:
                if kind == GRADIENT and isinstance(asked, str) and value.kind not in (FREE, PAID):
                    continue
                note = Path(folder) / f"asking.{judge.rank}"
                note.write_text(json.dumps([with_rule, f"{layout} {example}".strip()]))
                torch.manual_seed(0)
                ruling = judge.ruling(call)
                value = ruling if kind == VALUE else value
                lines.append(_line(name, layout, kind, ruling, example))
        told.append(lines)
    return told


def _calls(asked: Any, ranks: int, samples: int) -> Iterator[tuple[str, str, str, PlacedCall, str]]:
    if isinstance(asked, str):
        for case in cases_of(asked, ranks, samples):
            yield asked, case.layout_name, case.asked, case.call, case.example
        return
    for call in asked:
        name = call.operator or getattr(call.function, "__name__", "")
        yield name, ", ".join(call.layout), GRADIENT if call.gradient else VALUE, call, ""


def _line(name: str, layout: str, asked: str, ruling: Ruling, example: str) -> dict[str, Any]:
    told = asdict(ruling) | {"sent": sorted({each.kind for each in ruling.sent}), "nbytes": ruling.sent_nbytes}
    return {"operator": name, "layout": layout, "asked": asked, "ruling": told, "example": example}


def cdist_rule(a: Any, b: Any, p: float, mode: int | None) -> list[tuple[list[Any], list[Any]]]:
    """Distances of rows to rows: those of a shard of either side are a shard of all."""
    rows, columns = a.ndim - 2, a.ndim - 1
    return [
        ([Replicate()], [Replicate(), Replicate(), None, None]),
        ([Shard(rows)], [Shard(rows), Replicate(), None, None]),
        ([Shard(columns)], [Replicate(), Shard(rows), None, None]),
    ]


def scatter_amax_rule(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> list[tuple[list[Any], list[Any]]]:
    """Shards along another dimension; and, of a maximum, each rank's of its own sources is a partial maximum."""
    rules = [([Replicate()], [Replicate(), None, Replicate(), Replicate(), None])]
    rules += [([Shard(d)], [Shard(d), None, Shard(d), Shard(d), None]) for d in range(x.ndim) if d != dim % x.ndim]
    if reduce == "amax" and include_self:
        at = dim % x.ndim
        rules.append(([Partial("max")], [Replicate(), None, Shard(at), Shard(at), None]))
    return rules


def wrong_cumsum_rule(x: Any, dim: int, *, dtype: Any = None) -> list[tuple[list[Any], list[Any]]]:
    """Plausible, and wrong: each rank sums its own shard along the dimension that is cut."""
    return [([Replicate()], [Replicate(), None])] + [([Shard(d)], [Shard(d), None]) for d in range(x.ndim)]
