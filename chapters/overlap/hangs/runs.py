"""Run the cases: what torch says, what ours says and how soon, and whether the cure ends with the right result."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compile_lab.devices.ranks import Ending, endings
from compile_lab.recordings import RecordedRow

from .case_table import CASES
from .cases import PATIENCE_S, HangCase, source
from .watch import watched

LIMIT_S = 150.0
"""For one run of one program."""


@dataclass(frozen=True)
class HangResult(RecordedRow):
    """What came of a case. ``torch`` and ``detail`` have a message for each rank, "" for one that raised nothing.

    ``detail`` is under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``; ``analyser`` is what ``torchfrtrace`` says of both ranks'
    flight recorders. ``ours`` is the note of the first rank that failed, ``after_s`` the seconds from its failure to
    the note. ``marked`` are the lines of the listing ``program``, from 1, where the note says that ranks are.
    ``cured``: every rank of the cure returned what is expected; ``got`` has what each returned.
    """

    name: str
    title: str
    why: str
    ranks: int
    program: str
    cure: str
    cured_by: str
    torch: tuple[str, ...]
    detail: tuple[str, ...]
    analyser: str
    ours: str
    kind: str
    odd: tuple[int, ...]
    after_s: float
    marked: tuple[int, ...]
    cured: bool
    got: tuple[str, ...]
    expected: str

    @property
    def holds(self) -> bool:
        """The program failed, ours named it within a second, and the cure gave the right result on all ranks."""
        return bool(self.ours) and self.after_s < 1 and self.cured


def judge(case: HangCase, detail: bool = True, patience: float = PATIENCE_S) -> HangResult:
    """Run a case: its program, once more under DETAIL if that is asked, and its cure. No process is left.

    ``patience`` is the groups' time-out in seconds: with less, ranks that compile on a busy machine part for that.
    """
    with tempfile.TemporaryDirectory(prefix="hang-") as name:
        folder = Path(name)
        if case.before is not None:
            _ended(case, "before", folder / "before", patience)
        hung = _ended(case, "program", folder / "hung", patience)
        named = _first_named(folder / "hung" / "watch")
        analyser = _analysed(folder / "hung" / "watch")
        more = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        told = _ended(case, "program", folder / "detail", patience, **more) if detail else ()
        cured = _ended(case, "cure", folder / ("hung" if case.again else "cured"), patience)
    note = named.get("note", "")
    parting = named.get("parting", {"kind": "", "odd": (), "lines": ()})
    got = tuple(repr(each.value) if each.status == 0 else _message(each, "") for each in cured)
    return HangResult(
        case.name,
        case.title,
        case.why,
        case.ranks,
        source(case.program, *case.needs),
        source(case.cure, *case.cure_needs),
        case.cured,
        tuple(_message(each, note) for each in hung),
        tuple(_message(each, "") for each in told),
        analyser,
        note,
        parting["kind"],
        tuple(parting["odd"]),
        round(named.get("named", 0.0) - named.get("failed", 0.0), 2),
        _marked(case, [line for _, line in parting["lines"]]),
        all(each.status == 0 and each.value == case.expected for each in cured),
        got,
        repr(case.expected),
    )


def as_record(results: Sequence[HangResult]) -> dict[str, Any]:
    """The results as JSON holds them: a recording's ``result``."""
    return {"patience_s": PATIENCE_S, "cases": [asdict(each) for each in results]}


def _ended(case: HangCase, part: str, folder: Path, patience: float, **env: str) -> list[Ending]:
    """Run a part of the case. Each run has a cache of its own, or what ``before`` left in it: a rank that is killed
    while it compiles leaves a library cut short, and Inductor (torch 2.13) loads that the next time, and fails.
    """
    folder.mkdir(exist_ok=True)
    if (left := folder.parent / "before" / "cache").is_dir() and not (folder / "cache").exists():
        shutil.copytree(left, folder / "cache")
    ranks = 1 if part == "before" else case.ranks
    at = [str(folder / name) for name in case.caches or ("cache",) * case.ranks]
    env |= {"RUN": str(folder), "TORCH_FR_BUFFER_SIZE": "100"}
    return endings(_on_rank, ranks, case.name, part, at, timeout=LIMIT_S, patience=patience, after=1.5, env=env)


def _on_rank(name: str, part: str, caches: list[str]) -> Any:
    import torch.distributed as dist

    case, folder = CASES[name], Path(os.environ["RUN"])
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches[dist.get_rank()]
    function = getattr(case, part)
    if part == "before":
        return function()
    with watched(folder / "watch"):
        return function()


def _first_named(folder: Path) -> dict[str, Any]:
    """What the first rank that failed has named."""
    found = [json.loads(file.read_text()) for file in folder.glob("parting.*.json")]
    return min(found, key=lambda each: each["failed"], default={})


_HOST = re.compile(r"\[?(?:\d{1,3}\.){3}\d{1,3}\]?(:\d+)?")
_FOLDER = re.compile(r"(?:/[\w.+-]+)+/([\w.+-]+\.(?:py|cc|cpp|h))")


def _message(ending: Ending, note: str) -> str:
    """What a rank raised, without our note, addresses and folders."""
    if ending.status is None:
        return "(it still ran, and was ended)"
    if ending.status < 0:
        return f"(killed by signal {-ending.status})"
    if not ending.status:
        return "(no error)"
    said = re.split(r"\n(?:The ranks |No recorded collective )", ending.raised)[0]
    said = _FOLDER.sub(r"\1", _HOST.sub("(address)", said))
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", said).strip()


def _analysed(folder: Path) -> str:
    """What torch's own analyser says of the recorders of all ranks."""
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "-p", "recorder_"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [
        line.partition("fr_logger.py:")[2].partition("] ")[2] or line for line in (ran.stdout + ran.stderr).splitlines()
    ]
    return _FOLDER.sub(r"\1", "\n".join(lines)).strip()


def _marked(case: HangCase, lines: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Lines of files as lines of the listing."""
    starts, at = {}, 1
    for each in (*case.needs, case.program):
        text, first = inspect.getsourcelines(each)
        starts[first] = (at, len(text))
        at += len(text) + 2
    found = set()
    for file, line in lines:
        for first, (start, count) in starts.items():
            if Path(file).name == "cases.py" and first <= line < first + count:
                found.add(start + line - first)
    return tuple(sorted(found))
