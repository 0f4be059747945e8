"""Many calls asked about in one group of ranks, which starts once.

A call that hangs or brings a rank down ends its group. It is a ruling, and a new group goes on with the next call.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from compile_lab.devices import ranks as gangs
from compile_lab.devices.dtensor import HANGS, DTensorCall, Judge, Ruling, check_layout, failure_reason, shards_of
from compile_lab.doors import check_amount, check_whole, door

_SEED = 0


@door
def rulings(
    calls: Sequence[DTensorCall],
    *,
    ranks: int = 2,
    limit_s: float = 20.0,
    before: Callable[[], None] | None = None,
) -> tuple[Ruling, ...]:
    """A ruling for each call, in order; ``limit_s`` seconds are for each.

    ``before`` runs on every rank before the first call: to register a rule, for instance. Raises ValueError for a
    layout that does not fit its call, and RankFailed where ``before`` raises.
    """
    check_whole("ranks", ranks, 2, 64)
    check_amount("limit_s", limit_s)
    for call in calls:
        check_layout(call, ranks)
    found: list[Ruling] = []
    while len(found) < len(calls):
        with tempfile.TemporaryDirectory(prefix="asking-") as folder:
            left = list(calls[len(found) :])
            try:
                found += gangs.run(
                    _on_rank,
                    ranks,
                    left,
                    limit_s,
                    folder,
                    before,
                    timeout=gangs.LIMIT_S + limit_s * len(left),
                    echo=False,
                )[0]
            except gangs.RankFailed as failed:
                found += _until(Path(folder), left, ranks, failed)
    return tuple(found)


@door
def layout_rulings(
    functions: Mapping[str, tuple[Callable[..., object], tuple[object, ...]]],
    layouts: Sequence[str],
) -> dict[tuple[str, str], Ruling]:
    """Each named (function, arguments) with its first tensor under each placement, the others replicated.

    Raises ValueError as `rulings`: each first tensor must have the dimensions that the placements name.
    """
    asked = [(name, word) for name in functions for word in layouts]
    calls = []
    for name, word in asked:
        function, args = functions[name]
        rest = ("R",) * (sum(isinstance(each, torch.Tensor) for each in args) - 1)
        calls.append(DTensorCall(function, args, (word, *rest), operator=name))
    return dict(zip(asked, rulings(calls), strict=True))


def _on_rank(
    calls: Sequence[DTensorCall], limit_s: float, folder: str, before: Callable[[], None] | None
) -> list[Ruling]:
    """One rank's share. How far rank 0 came is in a folder's names, for the case that it goes no further."""
    if before is not None:
        before()
    judge = Judge(limit_s, folder)
    found = []
    for number, call in enumerate(calls):
        torch.manual_seed(_SEED)
        if judge.rank == 0:
            (Path(folder) / f"begun.{number}").touch()
        found.append(judge.ruling(call))
        if judge.rank == 0:
            torch.save(found, Path(folder) / "found")
        if found[-1].kind == HANGS:
            raise RuntimeError("the ranks start over")
    return found


def _until(folder: Path, calls: Sequence[DTensorCall], ranks: int, failed: gangs.RankFailed) -> list[Ruling]:
    """The rulings until the call that ended the group, and that one's."""
    if not list(folder.glob("begun.*")):
        raise failed
    kept = folder / "found"
    found = torch.load(kept, weights_only=False) if kept.exists() else []
    if found and found[-1].kind == HANGS:
        return found
    call = calls[len(found)]
    return [*found, Ruling(HANGS, detail=failure_reason(failed, folder), shards=shards_of(call, ranks))]


@door
def with_rule(operator: str, rule: Callable[..., object]) -> Callable[[], None]:
    """What registers ``rule`` for an operator, such as ``aten._cdist_forward.default``: for ``before`` of `rulings`.

    ``rule`` is what ``torch.distributed.tensor.experimental.register_sharding`` takes. Raises ValueError for an
    operator that torch has not.

    >>> from chapters.sharding_strategies.queries import with_rule
    >>> with_rule("aten.cumsums.default", lambda x, dim: [])
    Traceback (most recent call last):
        ...
    ValueError: torch has no operator 'aten.cumsums.default': give library, name and overload, as
    aten.cumsum.default
    """
    _overload(operator)

    def register() -> None:
        from torch.distributed.tensor.experimental import register_sharding

        register_sharding(_overload(operator))(rule)

    return register


def _overload(name: str) -> Any:
    """``torch.ops`` itself cannot be sent to another process, and a name can."""
    found = getattr(torch, "ops")  # noqa: B009
    parts = name.split(".")
    try:
        for part in parts:
            found = getattr(found, part)
    except AttributeError:
        found = None
    if len(parts) != 3 or found is None:
        raise ValueError(f"torch has no operator {name!r}: give library, name and overload, as aten.cumsum.default")
    return found
