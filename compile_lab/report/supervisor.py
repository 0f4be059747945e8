"""The process that a reader starts: it starts the one that runs the reader's code, waits, and leaves nothing behind.

Whatever that code does to its own process, this one has an answer or a `SubjectFailed`. It imports no torch, runs
nothing of the reader's, and takes nothing back but text: ``worker`` writes lines of JSON into a pipe.

- ``{"phase": name, "limit_s": seconds, "of": phases}``: from here on this runs; with no word for longer, it is ended.
- ``{"exit": place}``: the code calls ``os._exit`` there.
- ``{"refused": why}`` or ``{"report": text, "summary": text}``: the end.

Every other line is where the code was when a signal found it, as faulthandler writes it.
"""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..source import Line, readers_line
from . import processes

TICK_S = 0.2
"""So often are memory, time and signals looked at."""
START_S = 300.0
"""Until Python has imported torch, and nothing of the reader's has run."""
GRACE_S = 30.0
"""A limit is the worker's own affair, which may go on without that part. So much longer, and it is ended."""
PLACE_S = 1.0
ENDS_S = 10.0
MOST_PROCESSES = 500
MOST_PRINTED = 64_000
"""Bytes of what the code prints that are passed on; the rest is read and left out."""
MOST_ANSWERED = 64_000_000
OF_FREE = 0.8
"""What the code may hold, of the memory that is free when it starts."""
LOST = 75
"""The worker's status where the code has closed the pipe to this process."""
_FORMS: tuple[dict[str, type], ...] = (
    {"phase": str, "limit_s": float, "of": int},
    {"exit": str},
    {"refused": str},
    {"report": str, "summary": str},
)
STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class SubjectFailed(Exception):
    """The reader's code has not let the report come to its end: says what happened, where, and the way out."""


class StoppedBySignal(Exception):
    """Somebody asked this process to stop; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass(frozen=True)
class Answer:
    """The report as it is to be written, and its summary for the terminal."""

    report: str
    summary: str


@contextlib.contextmanager
def stops_noted() -> Iterator[list[int]]:
    """In the block, Control-C, SIGTERM and SIGHUP are only noted, in the list: whoever waits ends in good order."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    heard = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]  # as nohup has it
    before = {each: signal.signal(each, lambda number, _: noted.append(number)) for each in heard}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def supervised(
    command: Sequence[str],
    *,
    memory_nbytes: int | None = None,
    stops: Sequence[int] = (),
    phase: Callable[[str, int], None] = lambda name, of: None,
    printed: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Run a worker to its answer, and end all that it has started.

    Its processes together may hold ``memory_nbytes``; without, `OF_FREE` of what is free now. ``phase`` is told what
    begins, and of how many, ``printed`` what the code prints. A number in ``stops`` ends it: StoppedBySignal.
    Everything else that is no answer is a SubjectFailed. Nothing that the worker has started outlives the call.
    """
    free = processes.free_nbytes()
    most = memory_nbytes or (free and int(OF_FREE * free))
    here = {each.number for each in processes.below(os.getpid())}
    with processes.orphans_adopted():
        process = start(command)
        watch = _Watch(process, most, here, phase, printed)
        try:
            return watch.answer(stops)
        finally:
            _end(process, here)
            watch.close()


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process in a session of its own: no terminal, no Control-C, and its group can be ended whole."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True)


def plain(text: str) -> str:
    """No cursor is moved and no colour changed in the reader's terminal."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text.replace("\r\n", "\n").replace("\r", "\n"))


class _Watch:
    """One run: what the worker says, what it prints, and how long, how large and how many it may be."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        most: int | None,
        here: set[int],
        phase: Callable[[str, int], None],
        printed: Callable[[str], None],
    ) -> None:
        self.process, self.most, self.here = process, most, here
        self.told_phase, self.printed = phase, printed
        self.phase, self.allowed_s, self.waited_s, self.looked = "the start", START_S, 0.0, time.monotonic()
        self.every_s = TICK_S
        self.exit: str | None = None
        self.frames: list[Line] = []
        self.last_words = ""
        self.inbox: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        assert process.stdout and process.stderr  # pipes, by `start`
        self.streams = (process.stdout, process.stderr)
        self.readers = [
            threading.Thread(target=_read_lines, args=(process.stdout.fileno(), self.inbox), daemon=True),
            threading.Thread(target=_read_printed, args=(process.stderr.fileno(), self.inbox), daemon=True),
        ]

    def answer(self, stops: Sequence[int]) -> Answer:
        """Wait for it; SubjectFailed, or StoppedBySignal, if something else comes first."""
        for each in self.readers:
            each.start()
        while True:
            ended = self.process.poll() is not None  # asked first: what it said last is then on its way to the inbox
            if ended:
                for each in self.readers:
                    each.join(PLACE_S)  # a fork may hold the pipe open, and write for ever
            for _ in range(self.inbox.qsize() if ended else 1):
                if (found := self._taken(TICK_S)) is not None:
                    return found
            if ended:
                raise self._died()
            if stops:
                raise StoppedBySignal(stops[0])
            self._look()

    def close(self) -> None:
        """Once nobody writes any more."""
        for each, stream in zip(self.readers, self.streams, strict=True):
            if each.ident is not None:
                each.join(PLACE_S)
            if not each.is_alive():
                stream.close()

    def _taken(self, wait_s: float) -> Answer | None:
        """Take one message, if one comes."""
        try:
            kind, data = self.inbox.get(timeout=wait_s)
        except queue.Empty:
            return None
        if kind == "printed":
            text = plain(data.decode(errors="replace"))
            self.last_words = next((line for line in reversed(text.splitlines()) if line.strip()), self.last_words)
            self.printed(text)
        elif kind == "overlong":
            raise self._failed(f"answered with more than {MOST_ANSWERED / 1e6:.0f} MB", "report on a smaller model")
        elif (message := _message(data)) is None:
            self._note_frame(data.decode(errors="replace"))
        elif "phase" in message:
            self.phase, self.allowed_s, self.waited_s = message["phase"], message["limit_s"] + GRACE_S, 0.0
            self.told_phase(self.phase, message["of"])
        elif "exit" in message:
            self.exit = message["exit"]
        elif "refused" in message:
            raise SubjectFailed(message["refused"])
        else:
            return Answer(message["report"], message["summary"])
        return None

    def _note_frame(self, text: str) -> None:
        if "most recent call first" in text:
            self.frames.clear()
        if (found := re.search(r'File "([^"]+)", line (\d+) in ', text)) and len(self.frames) < 1000:
            self.frames.append(Line(found[1], int(found[2])))

    def _look(self) -> None:
        """Is it too late, too much, too many? Time in which this process was stopped itself does not count."""
        now = time.monotonic()
        if now - self.looked < self.every_s:
            return
        self.waited_s += min(now - self.looked, 5 * self.every_s)
        self.looked = now
        if self.waited_s > self.allowed_s:
            self._ask_where()
            raise self._failed(
                f"has not come on for {self.waited_s:.0f} s, and could not be interrupted",
                "give it longer with --limit-s, or make the model or its batch smaller",
            )
        found = processes.below(os.getpid(), self.here)
        self.every_s = max(TICK_S, 20 * (time.monotonic() - now))  # where thousands of processes run, that takes time
        if any(each.number == self.process.pid and each.state == "T" for each in found):
            raise self._failed("stopped itself with a signal", "nobody is there who would let it go on: leave that out")
        if len(found) > MOST_PROCESSES:
            raise self._failed(f"had started {len(found)} processes", "let it start fewer")
        if self.most and (held := processes.held_nbytes(found, self.most)) > self.most:
            self._ask_where()
            raise self._failed(
                f"held {held / 1e9:.1f} GB of memory, and {self.most / 1e9:.1f} GB are its limit",
                "build it without memory with --fake, make the batch smaller, or allow more with --limit-gb",
            )

    def _ask_where(self) -> None:
        """A signal has the worker say where it is, if it still can."""
        if not hasattr(signal, "SIGUSR1") or self.process.poll() is not None:
            return
        self.frames.clear()
        os.kill(self.process.pid, signal.SIGUSR1)
        end = time.monotonic() + PLACE_S
        while time.monotonic() < end and readers_line(self.frames) is None and self.process.poll() is None:
            if self._taken(0.05) is not None:
                return

    def _died(self) -> SubjectFailed:
        status = self.process.returncode
        comes_back = "it must come back: leave the exit out"
        if self.exit is not None:
            line = f", at {self.exit}" if self.exit else ""
            return self._failed(f"ended with os._exit({status}){line}", comes_back, "")
        if status == LOST:
            return self._failed("closed the pipe to the report", "let it close only what it has opened")
        if status >= 0:
            said = f"; it last wrote: {self.last_words[:200]}" if self.last_words else ""
            return self._failed(f"ended with status {status} and no report{said}", comes_back)
        name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
        if name == "SIGKILL":
            todo = "Linux does so when memory is short: try --fake, a smaller batch, or a machine with more"
        else:
            todo = "it must run in eager mode first: python -X faulthandler says more"
        return self._failed(f"was killed by {name}", todo)

    def _failed(self, what: str, todo: str, at: str | None = None) -> SubjectFailed:
        line = readers_line(self.frames) if at is None else None
        return SubjectFailed(f"during {self.phase} the process {what}{f', at {line}' if line else ''}; {todo}")


def _read_lines(pipe: int, inbox: "queue.SimpleQueue[tuple[str, bytes]]") -> None:
    """Each line that the worker writes, whole; after one that is too long, nothing more."""
    line, overlong = bytearray(), False
    while part := os.read(pipe, 1 << 20):
        *whole, rest = part.split(b"\n")
        for each in whole:
            line += each
            inbox.put(("line", bytes(line)))
            line.clear()
        line += rest
        if len(line) > MOST_ANSWERED and not overlong:
            overlong = True
            inbox.put(("overlong", b""))
        if overlong:
            line.clear()


def _read_printed(pipe: int, inbox: "queue.SimpleQueue[tuple[str, bytes]]") -> None:
    """What the code prints, to the end: of a flood only the beginning is kept."""
    left = MOST_PRINTED
    while part := os.read(pipe, 1 << 16):
        if left > 0:
            inbox.put(("printed", part[:left]))
            left -= len(part)
            if left <= 0:
                inbox.put(("printed", f"\n… it prints more than {MOST_PRINTED:,} bytes: left out\n".encode()))


def _message(line: bytes) -> dict[str, Any] | None:
    """A line of the worker's, if it has one of its forms."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    for form in _FORMS:
        if isinstance(found, dict) and form.keys() == found.keys():
            return found if all(isinstance(found[name], kind) for name, kind in form.items()) else None
    return None


def _end(process: subprocess.Popen[bytes], here: set[int]) -> None:
    """End the worker, its group, and whoever has left that: again until none is there, for one may start another."""
    until = time.monotonic() + ENDS_S
    while True:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left in it
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        processes.kill([each for each in processes.below(os.getpid(), here) if each.number != process.pid])
        ended = process.poll() is not None
        if (ended and not processes.below(os.getpid(), here)) or time.monotonic() > until:
            return
        time.sleep(0.01)
