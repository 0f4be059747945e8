"""Every operator that torch's own tests know, under every placement of its inputs, on real ranks against one process.

An operator is tried on up to `SAMPLES` of torch's sample inputs, which differ in their arguments and whose sides the
ranks share evenly where there are such, and on one whose sides they do not. The first tensor is replicated, sharded
along each dimension, and partial in four ways, the others replicated; and all tensors of the first one's shape are
sharded alike. Of further samples the first tensor is sharded along one of three dimensions, and partial in two ways.
Where a value is right, the gradients are asked for. Ranks that hang or crash are ended, and the rest goes on with new
ones. A case that was late is asked again, alone and with more time; if that does not help, it is a ruling, too.
"""

import hashlib
import itertools
import json
import re
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from compile_lab.devices import alarms, dtensor, placements
from compile_lab.devices import ranks as gangs
from compile_lab.devices.dtensor import (
    FREE,
    HANGS,
    KINDS,
    OTHERS_WAIT,
    PAID,
    TOO_LATE,
    UNASKED,
    WRONG,
    Judge,
    Ruling,
    failure_reason,
    first_line,
)
from compile_lab.doors import check_whole, door

from . import audit_cases
from .audit_cases import GRADIENT, SEED, VALUE, cases_of, matching

SAMPLES = 6
LONGER = 3
"""A case that found no end within its time runs again, alone, with so many times as much."""
_START_OVER = "the ranks start over"


@door
@dataclass(frozen=True)
class Row:
    """Equal rulings on one operator: ``cases`` of them.

    ``layout`` is the first tensor's placement, the others replicated, or ``all S(d)``; ``asked`` is ``value`` or
    ``gradient``. ``sends`` are the kinds of collectives, ``nbytes`` the most that a rank sends on a ring in any of the
    cases. ``example`` has the shapes and arguments of the first case, where something is wrong or hangs.

    >>> from chapters.sharding_strategies.audit import Row
    >>> row = Row("sum", "S(0)", "value", "even", "paid", sends="all_reduce", nbytes=8)
    >>> row.kind, row.sends, row.cases
    ('paid', 'all_reduce', 1)
    """

    operator: str
    layout: str
    asked: str
    shards: str
    kind: str
    what: str = ""
    detail: str = ""
    helps: str = ""
    sends: str = ""
    rule: str = ""
    cases: int = 1
    nbytes: int = 0
    example: str = ""


@dataclass(frozen=True)
class Audit:
    """Rows, and how they were made; ``asked`` are the operators that were looked for, with or without a case."""

    ranks: int
    samples: int
    seed: int
    only: str
    asked: tuple[str, ...]
    rows: tuple[Row, ...]

    def counts(self) -> Counter[tuple[str, str]]:
        """Cases by kind and by how the shards are."""
        found: Counter[tuple[str, str]] = Counter()
        for row in self.rows:
            found[row.kind, row.shards] += row.cases
        return found

    def operators(self, *kinds: str) -> tuple[str, ...]:
        """Operators with a case, or with one of these kinds."""
        wanted = kinds or tuple(kind for kind in KINDS if kind != UNASKED)
        return tuple(sorted({row.operator for row in self.rows if row.kind in wanted}))


@door
def audit(
    only: str = "*",
    *,
    ranks: int = 2,
    samples: int = SAMPLES,
    limit_s: float = 10.0,
    kept: Path | None = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> Audit:
    """Ask about each operator that ``only`` matches, on ``ranks`` real ranks.

    What is finished goes to the file ``kept``, if one is given, and is not asked again by a later call with the same
    torch, settings and judges. ``limit_s`` is for one case. Raises ValueError as `matching`.
    """
    check_whole("ranks", ranks, 2, 64)
    check_whole("samples", samples, 1, 50)
    names = matching(only)
    settings = {"torch": str(torch.__version__), "ranks": ranks, "samples": samples, "seed": SEED, "limit_s": limit_s}
    settings["code"] = _code()
    done = _Kept(kept, settings)
    with _Sweep([name for name in names if name not in done.rows], ranks, samples, limit_s) as sweep:
        for name in progress(names):
            if name not in done.rows:
                done.add(name, sweep.rows(name))
    return Audit(ranks, samples, SEED, only, names, tuple(row for name in names for row in done.rows[name]))


def _code() -> str:
    """What changes when those who judge do."""
    files = __file__, *(module.__file__ for module in (alarms, audit_cases, dtensor, placements))
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files if file)).hexdigest()[:16]


class _Kept:
    """Finished operators in a file of lines, the first of which says how they were made."""

    def __init__(self, file: Path | None, settings: dict[str, Any]) -> None:
        self.file, self.rows = file, {}
        if file is None:
            return
        lines = file.read_text().splitlines() if file.exists() else []
        if not lines or json.loads(lines[0]) != settings:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings) + "\n")
        for line in lines[1:] if file.stat().st_size and lines and json.loads(lines[0]) == settings else []:
            if line.endswith("}"):  # the last one may have been cut off
                read = json.loads(line)
                self.rows[read["operator"]] = tuple(Row(**row) for row in read["rows"])

    def add(self, name: str, rows: tuple[Row, ...]) -> None:
        self.rows[name] = rows
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps({"operator": name, "rows": [asdict(row) for row in rows]}) + "\n")


class _Sweep:
    """Ranks at work on one operator after the other, and new ones whenever they are lost."""

    def __init__(self, todo: Sequence[str], ranks: int, samples: int, limit_s: float) -> None:
        self._todo, self._ranks, self._samples, self._limit_s = list(todo), ranks, samples, limit_s
        self._pool = ThreadPoolExecutor(1)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: Future[Any] | None = None
        self._read = 0
        self._unread: deque[dict[str, Any]] = deque()

    def __enter__(self) -> "_Sweep":
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._folder is not None:
            (Path(self._folder.name) / "stop").touch()
        self._pool.shutdown()
        if self._folder is not None:
            self._folder.cleanup()

    def rows(self, name: str) -> tuple[Row, ...]:
        """The rows of the operator, which is the next of those to do."""
        told: list[dict[str, Any]] = []
        cases, here = None, self._running is None  # how many; do the ranks start with this operator?
        running = self._running or self._start(name, 0)
        while True:
            lost = running.done()  # asked before reading: what was written by then is read
            self._unread.extend(self._lines())
            while self._unread and self._unread[0]["operator"] == name:  # what follows is of the next one
                line = self._unread.popleft()
                cases = line.get("begins", cases)
                told += [line] if "ruling" in line else []
                if line.get("ends"):
                    return rows_of(told)
            if lost and (why := self._why(running)) != _START_OVER:
                if cases is None and here:
                    told.append(_line(name, "", VALUE, self._never_began(running, why), ""))
                elif cases is not None:
                    told.append(self._lost_case(name, len(told), why))
            if lost and told and (cases is None or len(told) >= cases):
                self._running = None  # the next operator starts new ones
                return rows_of(told)
            if lost:
                running = self._start(name, len(told))
                cases, here = None, True
            time.sleep(0.02)

    def _never_began(self, running: Future[Any], why: str) -> Ruling:
        """Samples that bring a rank down are no case of DTensor's; an exception is one of this program."""
        if " was killed by " not in why and (failed := running.exception()):
            raise failed
        return Ruling(UNASKED, detail=why)

    def _lost_case(self, name: str, number: int, why: str) -> dict[str, Any]:
        """The case by which the ranks were lost. If time was what failed, it is asked again, alone and for longer."""
        case = next(itertools.islice(cases_of(name, self._ranks, self._samples), number, None))
        ruling = Ruling(HANGS, detail=why, shards=case.shards)
        if TOO_LATE in why or OTHERS_WAIT in why:
            ruling = self._second_ruling(name, number, ruling)
        return _line(name, case.layout_name, case.quantity, ruling, case.example)

    def _second_ruling(self, name: str, number: int, ruling: Ruling) -> Ruling:
        asked = name, number, self._ranks, self._samples, LONGER * self._limit_s
        with tempfile.TemporaryDirectory(prefix="again-") as folder:
            try:
                return gangs.run(_once, self._ranks, *asked, folder, timeout=3600.0, echo=False)[0]
            except gangs.RankFailed as failed:
                return replace(ruling, detail=failure_reason(failed, Path(folder)))

    def _why(self, running: Future[Any]) -> str:
        failed = running.exception()
        if failed is None:
            return _START_OVER
        if not isinstance(failed, gangs.RankFailed):
            raise failed
        return _START_OVER if _START_OVER in str(failed) else failure_reason(failed, self._at)

    @property
    def _at(self) -> Path:
        assert self._folder is not None  # made before the ranks
        return Path(self._folder.name)

    def _start(self, name: str, skip: int) -> Future[Any]:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = tempfile.TemporaryDirectory(prefix="audit-")
        self._read = 0
        self._unread.clear()
        todo = self._todo[self._todo.index(name) :]
        asked = todo, skip, self._ranks, self._samples, self._limit_s, self._folder.name
        self._running = self._pool.submit(gangs.run, _on_rank, self._ranks, *asked, timeout=7200.0, echo=False)
        return self._running

    def _lines(self) -> Iterator[dict[str, Any]]:
        file = self._at / "rows"
        if not file.exists():
            return
        with file.open() as lines:
            lines.seek(self._read)
            text = lines.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole.encode())
        yield from map(json.loads, whole.splitlines())


def _on_rank(todo: Sequence[str], skip: int, n: int, samples: int, limit_s: float, folder: str) -> None:
    """One rank's share: ask, and write a line for each case. The first operator's first ``skip`` cases are known."""
    judge = Judge(limit_s, folder)
    rows = (Path(folder) / "rows").open("w") if dist.get_rank() == 0 else None

    def write(**line: Any) -> None:
        if rows is not None:
            rows.write(json.dumps(line) + "\n")
            rows.flush()

    for name in todo:
        cases = list(cases_of(name, n, samples))
        write(operator=name, begins=len(cases))
        value = Ruling(UNASKED)
        for case in cases[skip:]:
            if (Path(folder) / "stop").exists():
                return
            torch.manual_seed(SEED)
            if case.quantity == GRADIENT and value.kind not in (FREE, PAID):
                ruling = Ruling(UNASKED, detail="asked only where the value is right")
            else:
                ruling = judge.ruling(case.call)
            value = ruling if case.quantity == VALUE else value
            write(**_line(name, case.layout_name, case.quantity, ruling, case.example))
            if ruling.kind == HANGS:
                raise RuntimeError(_START_OVER)
        skip = 0
        write(operator=name, ends=True, cpu_s=time.process_time())


def _once(name: str, number: int, n: int, samples: int, limit_s: float, folder: str) -> Ruling:
    """One rank's share of asking about one case."""
    judge = Judge(limit_s, folder)
    case = next(itertools.islice(cases_of(name, n, samples), number, None))
    torch.manual_seed(SEED)
    return judge.ruling(case.call)


def _line(name: str, layout: str, quantity: str, ruling: Ruling, example: str) -> dict[str, Any]:
    told = asdict(ruling) | {"sent": sorted({each.kind for each in ruling.sent}), "nbytes": ruling.sent_nbytes}
    return {"operator": name, "layout": layout, "asked": quantity, "ruling": told, "example": example}


def rows_of(lines: Sequence[dict[str, Any]]) -> tuple[Row, ...]:
    """Cases as rows, equal ones together; those that were not asked are left out unless there is nothing else."""
    asked = [line for line in lines if line["ruling"]["kind"] != UNASKED]
    found: dict[tuple[Any, ...], Row] = {}
    for line in asked or lines[:1]:
        told = line["ruling"]
        exact = told["kind"] in (WRONG, HANGS)
        row = Row(
            line["operator"],
            line["layout"],
            line["asked"],
            told["shards"],
            told["kind"],
            told["what"],
            detail=told["detail"] if exact else plainer(told["detail"]),
            helps=", ".join(told["helps"]),
            sends=", ".join(told["sent"]),
            rule=told["rule"],
            nbytes=told["nbytes"],
            example=line["example"] if exact else "",
        )
        key: tuple[str, ...] = (row.layout, row.asked, row.shards, row.kind, row.what, row.sends, row.rule)
        key += () if exact else (row.detail,)
        if (same := found.get(key)) is not None:
            row = replace(same, cases=same.cases + 1, nbytes=max(same.nbytes, row.nbytes))
        found[key] = row
    return tuple(found.values())


def plainer(message: str) -> str:
    """A message without the numbers of its case, so that equal refusals are told once."""
    return message and first_line(re.sub(r"\d+(\.\d+)?", "N", re.sub(r"\[[^][]*\]|0x[0-9a-f]+", "[…]", message)))[:160]
