"""A process of its own that answers: what breaks in it breaks nothing else, and what it started ends with it."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, Self

LEAVE_S = 10
"""How long a process that has said its last may take to leave by itself: one that is killed leaves its files behind."""


class Child:
    """``serve(pipe, *args)`` in a new process; ``pipe`` here is the other end. In a ``with`` it ends with the block.

    The function must be one that can be imported. The process is spawned: fork and CUDA do not go together.
    """

    def __init__(self, serve: Callable[..., None], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_lead, args=(serve, theirs, *args))
        self.process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def send(self, question: Any) -> None:
        """Nothing happens where it has ended: then `heard` says so."""
        with contextlib.suppress(OSError):
            self.pipe.send(question)

    def heard(self, within_s: float | None = None) -> Any:
        """What it says next. TimeoutError if it says nothing for so long; EOFError, with its exit code, if it ends."""
        if not self.pipe.poll(within_s):
            raise TimeoutError(f"it said nothing for {within_s:.0f} s")
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(LEAVE_S)
            raise EOFError(f"its process came to an end (exit code {self.process.exitcode})") from None

    def stop(self) -> None:
        """End the process, and those that it has started."""
        end_group(self.process)
        self.process.join()
        self.pipe.close()


def end_group(process: Any) -> None:
    """End a process that leads its group (multiprocessing's or subprocess's), and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # none is left, or it has not come to make its group
        process.kill()


def end_with_the_caller() -> None:
    """From here on even a caller that is killed leaves nothing of this process, of multiprocessing, behind."""
    threading.Thread(target=_wait_for_its_end, daemon=True).start()


def _wait_for_its_end() -> None:
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)


def _lead(serve: Callable[..., None], pipe: Connection, *args: Any) -> None:
    os.setsid()  # of a group of its own, that can be ended whole; and a Ctrl-C is the caller's
    end_with_the_caller()
    serve(pipe, *args)
