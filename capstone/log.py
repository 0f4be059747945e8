"""A training's log: a line of JSON a step, which a run that was killed and continued leaves as if nothing had happened.

The first line is a header: what the run is ("run"), the steps done before ("from"), and where it runs. A continued run
adds a header of its own. A step's line is a `LoggedStep`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

import torch
from torch import Tensor

from mini_model import inputs, lock
from mini_model.checkpoint import WAY_OUT, CheckpointError, same_run
from mini_model.loop import READ_EVERY, finite

LONGEST_LINE = 1_000_000  # bytes, of a header with many names of files; a longer one is no log's


class LogError(CheckpointError):
    """A log could not be written or continued; the message names the file, the rule and the way out."""


@dataclass(frozen=True)
class LoggedStep:
    """A step of training, from 1."""

    step: int
    loss: float
    """Of the step's batch, before its update, in nats per token."""
    lr: float
    gradient_norm: float
    """Of all gradients together, before clipping."""
    tokens_per_s: float
    """Over the steps since the loss was last read, saving left out. The first step of a run also compiles."""


class TrainingLog:
    """The file, open for a run that goes on after `done` steps; what stands in it of later steps is cut off.

    run: what two parts of one run share, as in `TrainingOptions.run`. where: what may differ between them, such as
    torch's version. LogError if the file is of another run, no regular file, or cannot be written; CheckpointError, as
    in `mini_model.lock`, while another run writes it.
    """

    def __init__(self, path: Path, run: Mapping[str, Any], done: int, where: Mapping[str, Any]) -> None:
        self.path = inputs.path("log", path)
        _regular(self.path, WAY_OUT)
        with ExitStack() as stack:
            stack.enter_context(lock.held(lock.lock_file(self.path), checkpoint=self.path))
            try:
                self.file = self.path.open("a+b")
                stack.callback(self._close)
                self.file.seek(0)
                self.file.truncate(_kept(self.path, self.file, dict(run), done))
                self._write({"run": dict(run), "from": done, **where})
                self.sync()
            except OSError as error:
                raise self._unwritten(error) from error
            self._open = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _close(self) -> None:
        with suppress(OSError):  # what could not be written was told when it was
            self.file.close()

    def add(self, steps: list[LoggedStep]) -> None:
        """Their lines, at the end. A killed process leaves them whole, or all but the last."""
        try:
            for step in steps:
                self._write(asdict(step))
            self.file.flush()
        except OSError as error:
            raise self._unwritten(error) from error

    def sync(self) -> None:
        """Waits until the lines are on the disk: a checkpoint that comes after them knows of no step that they miss."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise self._unwritten(error) from error

    def _write(self, content: dict[str, Any]) -> None:
        self.file.write(json.dumps(content).encode() + b"\n")

    def _unwritten(self, error: OSError) -> LogError:
        return LogError(
            f"{self.path}: the log could not be written ({error.strerror}). "
            "Make room, or name a file in a folder that exists and can be written to"
        )


def _regular(path: Path, way_out: str) -> None:
    """LogError for a pipe, a device or a folder: one would be read for ever, another would swallow the log."""
    if inputs.is_there(path) and not path.is_file():
        raise LogError(f"{path}: not a regular file, so not a log. {way_out}")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """A log's lines, one after the other: however long a file is, and whatever is in it, little of it is in memory."""
    return iter(lambda: file.readline(LONGEST_LINE), b"")


def _kept(path: Path, file: IO[bytes], run: dict[str, Any], done: int) -> int:
    """How many bytes of a log stay when its run goes on after `done` steps. LogError if it is of another run."""
    at = 0
    for number, line in enumerate(_lines(file)):
        found = _read(line)
        if number == 0:
            if not line.endswith(b"\n") and (not line or b'{"run": '.startswith(line[:8])):
                return 0  # its run was killed in its first word
            if "run" not in found:
                raise LogError(f"{path}: not a log of capstone.train, whose first line is a header. {WAY_OUT}")
            try:
                same_run(path, found["run"], run)
            except CheckpointError as error:
                raise LogError(str(error)) from None
        later = found.get("step", done + 1) > done if "run" not in found else found.get("from", done) >= done
        if later:
            return at
        at += len(line)
    return at


def _read(line: bytes) -> dict[str, Any]:
    """What a line says; {} for one that is torn, or no line of a log."""
    try:
        found = json.loads(line) if line.endswith(b"\n") else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_log(path: Path) -> tuple[dict[str, Any], tuple[LoggedStep, ...]]:
    """The first header of a log and its steps, in order. LogError if that is no log; a torn last line is left out."""
    path = inputs.path("path", path)
    way_out = "Name the --log file of a run"
    _regular(path, way_out)
    try:
        with path.open("rb") as file:
            header = _read(file.readline(LONGEST_LINE))
            steps: tuple[LoggedStep, ...] = ()
            if "run" in header:
                steps = tuple(LoggedStep(**found) for found in map(_read, _lines(file)) if "step" in found)
    except OSError as error:
        raise LogError(f"{path}: cannot be read ({error.strerror}). {way_out}") from error
    if "run" not in header:
        raise LogError(f"{path}: not a log of capstone.train, whose first line is a header. {way_out}")
    return header, steps


class Journal:
    """What a run has seen: its steps as `LoggedStep`, written to its log as the loss is read.

    Reading waits for the device, so on a GPU it is done for READ_EVERY steps together; on a CPU for each.
    """

    def __init__(self, log: TrainingLog | None, first: int, last: int, every: int, tokens: int, device: str) -> None:
        """first, last: steps done before and after. every: steps between checkpoints. tokens: of a step."""
        self.log, self.first, self.last, self.every, self.tokens = log, first, last, every, tokens
        self.reads = 1 if torch.device(device).type == "cpu" else READ_EVERY
        self.steps: list[LoggedStep] = []
        self._unread: list[tuple[int, Tensor, float, Tensor]] = []
        self.mark()

    def mark(self) -> None:
        """The clock of tokens per second starts anew."""
        self._since = time.perf_counter()

    def seen(self, done: int, loss: Tensor, lr: float, norm: Tensor, now: bool = False) -> bool:
        """Takes in a step; True if all losses so far were read, as they are `now` if not due by themselves.

        FloatingPointError if one is no number any more.
        """
        self._unread.append((done, loss, lr, norm))
        reads = now or done in (self.first + 1, self.last) or done % self.every == 0 or done % self.reads == 0
        if reads:
            self._read()
        return reads

    def _read(self) -> None:
        losses = [finite(loss, done) for done, loss, _, _ in self._unread]
        seconds = time.perf_counter() - self._since
        rate = self.tokens * len(losses) / seconds
        fresh = [
            LoggedStep(done, loss, lr, norm.item(), rate)
            for loss, (done, _, lr, norm) in zip(losses, self._unread, strict=True)
        ]
        self.steps += fresh
        self._unread = []
        if self.log:
            self.log.add(fresh)
        self.mark()

    def tokens_per_s(self) -> float | None:
        """The median over the steps but the first, which also compiles; None if nothing was done."""
        rates = sorted(step.tokens_per_s for step in self.steps[1:] or self.steps)
        return rates[len(rates) // 2] if rates else None
