"""The process in which the reader's code runs. Not for readers: ``supervisor`` starts it, and takes what it writes.

The pipe to the supervisor is what was its standard output. What the code prints, to either, goes to standard error.
"""

import contextlib
import ctypes
import faulthandler
import io
import json
import os
import select
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from ..source import users_line
from ..virtual_gpu.chips import CHIPS
from ..virtual_gpu.server import come_up
from .supervisor import LOST

_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG, as linux/prctl.h numbers it."""
_exit, _getpid = os._exit, os.getpid


class Channel:
    """The pipe to the supervisor. Only the process that was started writes into it, and only into this pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.owner, self.file = pipe, _getpid(), self._identity(pipe)

    def tell(self, **message: Any) -> None:
        """Write a line of JSON. A fork of the reader's code that comes so far ends here; so does all without a pipe."""
        if _getpid() != self.owner:
            _exit(0)
        left = json.dumps(message).encode() + b"\n"
        try:
            if self._identity(self.pipe) != self.file:  # the code has closed it and opened another file
                _exit(LOST)
            while left:
                left = left[os.write(self.pipe, left) :]
        except OSError:
            _exit(LOST)

    @staticmethod
    def _identity(pipe: int) -> tuple[int, int]:
        found = os.fstat(pipe)
        return found.st_dev, found.st_ino


def main(request: str) -> NoReturn:
    """Make the report that the JSON ``request`` says, tell the supervisor, end: no thread, no exit handler is asked."""
    channel, asked = Channel(os.dup(1)), json.loads(request)
    _prepare(channel)
    if asked["chip"] in CHIPS:
        come_up(CHIPS[asked["chip"]])
    from .answering import answer  # torch comes with it, while the chip's process comes up
    from .given import raised

    try:
        channel.tell(**answer(asked, channel.tell))
        _exit(0)
    except BaseException as error:
        sys.stderr.write(f"{raised(error)}\n")
    finally:
        _exit(1)


def _prepare(channel: Channel) -> None:
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")
    _end_with_the_supervisor(channel)
    faulthandler.enable(channel.pipe, all_threads=False)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, channel.pipe, all_threads=False)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU):
            faulthandler.register(number, channel.pipe, all_threads=False, chain=True)

    def report_exit(status: int) -> NoReturn:
        if _getpid() == channel.owner:
            channel.tell(exit=str(users_line(sys._getframe(1)) or ""))
        _exit(status)

    os._exit = report_exit


def _end_with_the_supervisor(channel: Channel) -> None:
    """Even one that is killed leaves nothing behind; and where memory is short, this process is the one to go."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        with contextlib.suppress(OSError):  # a container may not let it
            Path("/proc/self/oom_score_adj").write_text("1000")
    if hasattr(select, "poll") and os.getpgid(0) == channel.owner:
        watch = select.poll()
        watch.register(channel.pipe, 0)

        def wait() -> None:
            [(_, event)] = watch.poll()  # until nobody reads the pipe any more
            if event & select.POLLNVAL:  # the code closed it before it was watched
                _exit(LOST)
            os.killpg(channel.owner, signal.SIGKILL)

        threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
