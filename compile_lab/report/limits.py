"""How long the reader's code may take: ``with limited(seconds)`` raises in the block when its time is over."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

LIMIT_S = 55
"""Seconds for each part of a report, if nobody says otherwise."""
LONGEST_S = 7 * 24 * 3600
AGAIN_S = 5.0
"""After so many seconds once more, for Python ignores what is raised while it cleans up after an object."""


class PartTookTooLong(BaseException):
    """The time of a part is over. No Exception, so that nobody on the way takes it for an answer."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise PartTookTooLong in the block after so many seconds; outside the main thread, and on Windows, no limit.

    What is left of a time that is over is a moment: what is ready by then is taken. There is one clock of this kind in
    a process: an alarm that the block itself sets goes off without effect, and the limit stands.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    allowed = max(seconds, 0.1)
    end = time.monotonic() + allowed

    def over(*_: object) -> None:
        left = end - time.monotonic()
        if left > 0.01:
            signal.setitimer(signal.ITIMER_REAL, left, AGAIN_S)
        else:
            raise PartTookTooLong(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, allowed, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
