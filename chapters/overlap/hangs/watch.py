"""Where do the ranks part? A thread beside each rank writes what it has called into a folder that all of them see.

What a rank has called is torch's flight recorder's, which gloo fills, too. What it does now is its main thread's stack.
Neither needs the group that is stuck: a rank that waits in a collective, or compiles, still answers.
"""

import functools
import json
import os
import pickle
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from types import FrameType
from typing import Any

import torch.distributed as dist

from compile_lab._torch.distributed import flight_record, group_members
from compile_lab._torch.dynamo import compiling
from compile_lab.doors import check_amount, door
from compile_lab.source import Line, is_users

from .divergence import Divergence, RankState, find_divergence

BEAT_S = 0.1
"""Between two records of a rank that nobody asks, at least. The last one is what is known of a rank that was killed."""
SHARE = 0.05
"""Of the thread's time goes into such records: a full recorder of 2,000 collectives takes 60 ms to read."""
ANSWER_S = 0.7
"""For the other ranks to answer. One that does not is named as silent, with its last record."""
KEPT = 40
"""Of a rank's last collectives, on paper."""
_POLL_S = 0.03
_AOT_ID = re.compile(r"AOT ID: \['(\d+)_(\w+)'\]")


@door
@contextmanager
def watched(folder: Path, *, after_s: float | None = None) -> Iterator[None]:
    """While the block runs on every rank, ``folder``, empty at first, holds where each rank is.

    If the block raises, the other ranks are asked, and the exception gets a note that names where they part: within
    `ANSWER_S`. With ``after_s`` it is printed, too, once a collective has waited for so many seconds, long before a
    group's own time-out, which is half an hour by default. ``torchfrtrace FOLDER -p recorder_`` reads it, too.

    The folder is one that all ranks see. Raises RuntimeError without a process group, ValueError for a time below 0.
    """
    if not dist.is_initialized():
        raise RuntimeError("no process group is up: call init_process_group first, and watch what follows")
    check_amount("after_s", after_s or 0)
    folder.mkdir(parents=True, exist_ok=True)
    watch = _RankWatch(folder, after_s)
    watch.start()
    try:
        yield
    except BaseException as error:
        watch.failed(error)
        raise
    finally:
        watch.end()


def where(folder: Path) -> Divergence:
    """Where the ranks that are watched from ``folder`` part, asked now, from any process; waits up to `ANSWER_S`.

    Raises FileNotFoundError where no rank has written anything yet.
    """
    asked = time.time()
    (folder / "asked").touch()
    while True:
        stands = {stand.rank: stand for stand in map(_read, sorted(folder.glob("rank.*.json")))}
        if not stands:
            raise FileNotFoundError(f"{folder} holds no rank: it is the folder that was given to watched()")
        size = max(stand.size for stand in stands.values())
        silent = [rank for rank, stand in stands.items() if stand.at < asked and not stand.ended and not _gone(stand)]
        if (not silent and len(stands) == size) or time.time() > asked + ANSWER_S:
            break
        time.sleep(_POLL_S)
    gone = {rank for rank, stand in stands.items() if not stand.ended and _gone(stand)}
    return find_divergence(stands, gone=gone, silent=set(silent))


def _read(file: Path) -> RankState:
    return RankState.from_json(json.loads(file.read_text()))


def _gone(stand: RankState) -> bool:
    """Is its process no more? Only a process of this host can be asked."""
    if stand.host != socket.gethostname():
        return False
    try:
        os.kill(stand.pid, 0)
    except ProcessLookupError:
        return True
    with suppress(OSError, IndexError):  # killed, and not yet buried by its parent
        return Path(f"/proc/{stand.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


class _RankWatch:
    """The thread of one rank, and what it writes."""

    def __init__(self, folder: Path, after_s: float | None) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._folder, self._after_s = folder, after_s
        self._main = threading.current_thread().ident
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._failure = self._ended = ""
        self._failed_at: Line | None = None
        self._first = _last_id()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def start(self) -> None:
        self._write()
        self._thread.start()

    def failed(self, error: BaseException) -> None:
        """Name where the ranks part, in a note of the error; whatever goes wrong with that, the error is raised."""
        at = time.time()
        self._failure, self._failed_at = type(error).__name__, _raised_at(error)
        try:
            self._write()
            parting = where(self._folder)
            note = str(parting)
            named = {"failed": at, "named": time.time(), "note": note, "parting": parting.as_json()}
            _replace(self._folder / f"parting.{self.rank}.json", json.dumps(named).encode())
            error.add_note(note)
        except Exception as trouble:
            error.add_note(f"where the ranks part could not be found: {trouble!r}")

    def end(self) -> None:
        self._ended = "failed" if self._failure else "ended"
        self._over.set()
        self._thread.join(2)
        with suppress(OSError):
            self._write()

    def _beat(self) -> None:
        written, answered, told, pause = time.time(), 0.0, False, BEAT_S
        while not self._over.wait(_POLL_S):
            with suppress(Exception):  # the folder may go before the rank does
                asked = self._requested_at()
                began = time.time()
                if asked > answered or began > written + pause:
                    stand = self._write()
                    written, answered = time.time(), asked
                    pause = max(BEAT_S, (written - began) / SHARE)
                    waits = stand.waits_since and written - stand.waits_since
                    if self._after_s and waits and waits > self._after_s and not told:
                        told = True
                        print(f"rank {self.rank} waits for {waits:.1f} s. {where(self._folder)}", file=sys.stderr)

    def _requested_at(self) -> float:
        file = self._folder / "asked"
        return file.stat().st_mtime if file.exists() else 0.0

    def _write(self) -> RankState:
        with self._writing:
            stand = self._stand()
            _replace(self._folder / f"rank.{self.rank}.json", json.dumps(stand.to_json()).encode())
            return stand

    def _stand(self) -> RankState:
        at, record, groups = time.time(), pickle.loads(flight_record()), group_members()
        # torch 2.13 names no group in a dump over gloo, and its own analyser ends with a KeyError.
        record["pg_config"] = {name: {"name": name, "desc": name, "ranks": str(own)} for name, own in groups.items()}
        _replace(self._folder / f"recorder_{self.rank}", pickle.dumps(record))
        entries = [each for each in record["entries"] if each["record_id"] > self._first][-KEPT:]
        frame = sys._current_frames().get(self._main or 0)
        line = self._failed_at or _program_line(frame)
        return RankState(
            rank=self.rank,
            size=self.size,
            at=at,
            pid=os.getpid(),
            host=socket.gethostname(),
            calls=tuple(call_of(each) for each in entries),
            groups=groups,
            compiles=compiling(frame),
            place=(line.file, line.line) if line else None,
            failure=self._failure,
            ended=self._ended,
            waits_since=next((each["time_created_ns"] / 1e9 for each in entries if not each["retired"]), None),
        )


def _last_id() -> int:
    return max((each["record_id"] for each in pickle.loads(flight_record(stacks=False))["entries"]), default=-1)


def _raised_at(error: BaseException) -> Line | None:
    """The user's innermost line in the traceback of an error."""
    lines = [Line(each.filename, each.lineno or 0, each.name) for each in extract_tb(error.__traceback__)]
    return next((each for each in reversed(lines) if _is_program(each.file)), None)


def _program_line(frame: FrameType | None) -> Line | None:
    """The user's innermost line from ``frame`` outwards; Inductor's files are not the user's."""
    while frame is not None and not _is_program(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def call_of(entry: dict[str, Any]) -> dict[str, Any]:
    """A collective as a dict of plain values: kind, shapes, the user's line, the compiled graph, and if it is done."""
    graph, line = None, None
    for frame in entry.get("frames", ()):
        file = frame["filename"]
        if graph is None and (found := _graph(file)):
            graph = found
        elif line is None and _is_program(file):
            line = file, frame["line"]
    shapes = [list(map(int, each)) for each in entry["input_sizes"]]
    return {
        "group": entry["process_group"][0],
        "number": entry["collective_seq_id"],
        "kind": entry["profiling_name"].partition(":")[2],
        "shapes": shapes,
        "dtypes": [each.lower() for each in entry["input_dtypes"]],
        "line": line,
        "graph": graph,
        "done": bool(entry["retired"]),
    }


def _is_program(file: str) -> bool:
    if file == __file__ or file.startswith("<") or "codegen(" in file:
        return False
    return is_users(file) and not _graph(file)


@functools.cache
def _graph(file: str) -> str | None:
    """Which graph of AOTAutograd's the file is the code of, as Inductor wrote it: ``1, forward``."""
    if "torchinductor" not in file and "inductor" not in file.lower() and not re.search(r"/c\w{40,}\.py$", file):
        return None
    with suppress(OSError, UnicodeDecodeError):
        if found := _AOT_ID.search(Path(file).read_text()[:4000]):
            return f"{found[1]}, {found[2]}"
    return None


def _replace(file: Path, content: bytes) -> None:
    """Whoever reads the file sees it whole."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_bytes(content)
    new.replace(file)
