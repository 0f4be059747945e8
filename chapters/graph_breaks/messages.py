"""Which breaks does torch tell a user of by itself? What it writes with its logging as it comes, message by message.

``trace`` silences all of it and reads torch's structured log instead, which has every break.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from compile_lab._torch.dynamo import forget_warnings, reset_dynamo
from compile_lab.doors import door

LOGGERS = ("torch._dynamo", "torch._guards")


@door
def heard(fn: Callable[..., Any], *args: Any) -> tuple[str, ...]:
    """The messages that torch writes to stderr, with its logging as it comes, as ``fn`` is compiled and called.

    A log record reads ``log: …``, a warning ``UserWarning: …``. What torch says once in a process is heard again at
    each call of this function. What ``fn`` itself warns of, and what it prints, is left out. Compiled code is forgotten
    before and after.
    """
    reset_dynamo()
    forget_warnings()
    with _listening() as own:
        fn(*args)
    try:
        with _listening() as found:
            torch.compile(fn, backend="eager")(*args)
    finally:
        reset_dynamo()
    return tuple(message for message in found if message not in own)


@contextlib.contextmanager
def _listening() -> Iterator[list[str]]:
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    # Of this one handler, so a method is assigned.
    handler.emit = lambda record: found.append(f"log: {record.getMessage().rstrip()}")  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        _set(logger, logging.WARNING, [handler], False)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("default")
            yield found
        found += [f"{each.category.__name__}: {each.message}" for each in warned]
    finally:
        for logger, state in zip(loggers, before, strict=True):
            _set(logger, *state)


def _set(logger: logging.Logger, level: int, handlers: list[logging.Handler], propagate: bool) -> None:
    logger.setLevel(level)
    logger.handlers, logger.propagate = handlers, propagate
