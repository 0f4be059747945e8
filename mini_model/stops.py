"""Signals that ask a run to stop: Control-C, SIGTERM (Slurm, Kubernetes, docker stop), SIGHUP (a terminal that closes).

All three are told alike: as a KeyboardInterrupt, here a `Stopped`, which knows its signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A run was asked to stop by a signal, `number`; `when`: the step that it ended with, if it ended one."""

    def __init__(self, number: int, when: str = "") -> None:
        super().__init__(*filter(None, [when]))
        self.number = number


def code(stopped: KeyboardInterrupt) -> int:
    """The exit code of a program that was stopped, as a shell has it: 130 after Control-C, 143 after SIGTERM.

    >>> import signal
    >>> from mini_model.stops import Stopped, code
    >>> code(Stopped(signal.SIGTERM)), code(KeyboardInterrupt())
    (143, 130)
    """
    return 128 + getattr(stopped, "number", signal.SIGINT)


@contextmanager
def raised() -> Iterator[list[int]]:
    """While this is open, a signal that asks to stop raises `Stopped` wherever the program is, and is in the list."""
    numbers: list[int] = []

    def stop(number: int, _frame: object) -> None:
        numbers.append(number)
        raise Stopped(number)

    with _heard(stop):
        yield numbers


@contextmanager
def noted() -> Iterator[list[int]]:
    """While this is open, a first signal is only noted in the list: half a step is nothing to save.

    A second one is as it was before, and ends the program at once.
    """
    numbers: list[int] = []
    with _heard(lambda number, _frame: note(number)) as before:

        def note(number: int) -> None:
            numbers.append(number)
            if "RANK" not in os.environ:  # torchrun passes one signal on more than once
                _set(before)

        yield numbers


def report_stop(stopped: KeyboardInterrupt, kept: str) -> int:
    """Say that a run was stopped, and what is kept of it. From here on as in `ends_at_once`. The exit code."""
    ends_at_once()
    print(f"\nstopped{f' {stopped}' * bool(stopped.args)}; {kept}", file=sys.stderr)
    return code(stopped)


def ends_at_once() -> None:
    """From here on a signal that asks to stop ends the program at once, and without a traceback."""
    _set(dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL))


@contextmanager
def _heard(handler: Handler) -> Iterator[Mapping[signal.Signals, Handler]]:
    """The handler's time, which gets what was before. Outside of the main thread no signal comes, and nothing changes.

    Under nohup a terminal that closes is not heard: whoever said nohup wants the run to go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    # What was not set by Python, None here, could not be set again: it stays.
    before = {number: was for number in STOP_SIGNALS if (was := signal.getsignal(number)) is not None}
    if before.get(signal.SIGHUP) is signal.SIG_IGN:
        del before[signal.SIGHUP]
    _set(dict.fromkeys(before, handler))
    try:
        yield before
    finally:
        _set(before)


def _set(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
