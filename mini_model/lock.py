"""One run at a time on one checkpoint or log: a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .checkpoint import CheckpointError


def lock_file(file: Path) -> Path:
    """The lock file of a file: hidden, in the same folder."""
    return file.parent / f".{file.name}.lock"


@contextmanager
def held(file: Path, checkpoint: Path) -> Iterator[None]:
    """While this is open, no other run, here or on a node that shares the folder, has that lock file of a checkpoint.

    The system lets go of it when the process ends, even by SIGKILL; what is then left of the file is taken over by the
    next run. CheckpointError, naming the process, if another run holds it. Where a file system knows no locks, a note
    on stderr says so and the run goes on.
    """
    mine = _taken(file, checkpoint)
    try:
        yield
    finally:
        if mine:
            with suppress(OSError):  # the folder may be gone, and it is the lock that counts
                file.unlink()  # while it is still held: nobody else has it
            mine.close()


def _taken(file: Path, checkpoint: Path) -> IO[bytes] | None:
    while True:
        try:
            opened = file.open("a+b", buffering=0)
        except OSError:
            return None  # then no checkpoint can be written there either, and saving says why
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            opened.seek(0)
            holder = opened.read().decode(errors="replace")
            opened.close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise CheckpointError(
                    f"{checkpoint}: another run is at work on it ({holder or 'it has just begun'}), and each would "
                    "overwrite what the other saves. Wait for its end, end it, or name another file"
                ) from None
            print(
                f"note: no lock on {checkpoint} ({error.strerror}), so a second run on it would go unnoticed",
                file=sys.stderr,
            )
            return None
        if _is_still(file, opened):
            with suppress(OSError):  # a full disk: the name of the holder is a courtesy
                opened.truncate(0)
                opened.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            return opened
        opened.close()  # its holder came to its end and removed it between our two calls


def _is_still(file: Path, opened: IO[bytes]) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(opened.fileno()))
    except FileNotFoundError:
        return False
