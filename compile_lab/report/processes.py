"""Who runs below this process, and how much memory there is. Linux says so in /proc; elsewhere nothing is known."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ADOPTS, _ADOPTS_NOW = 36, 37
"""PR_SET_CHILD_SUBREAPER and PR_GET_CHILD_SUBREAPER, as linux/prctl.h numbers them."""


@dataclass(frozen=True)
class Process:
    """A process by its number. ``state`` is Linux's letter: T for one that is stopped, Z for one that has ended."""

    number: int
    parent: int
    state: str
    resident_nbytes: int


def below(root: int, but: Collection[int] = ()) -> tuple[Process, ...]:
    """All processes that ``root`` has started, and those that these have; ``but`` for some of its own, with theirs."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = [each for each in children.get(root, ()) if each.number not in but]
    for each in found:  # grows on the way
        found += children.get(each.number, ())
    return tuple(found)


def held_nbytes(processes: Collection[Process], enough: int) -> int:
    """Bytes of memory that these hold together. What forks share is counted once where it decides about ``enough``."""
    held = sum(each.resident_nbytes for each in processes)
    return sum(map(_share, processes)) if held >= enough else held


def free_nbytes() -> int | None:
    """Bytes that this machine, or the container's limit, has left for programs; None where nobody says."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return None
    machine = int(next(line.split()[1] for line in lines if line.startswith("MemAvailable"))) * 1024
    return min(machine, *_left_of_container(), machine)


@contextlib.contextmanager
def orphans_adopted() -> Iterator[None]:
    """In the block, who loses its parent below this process becomes a child of this one: nobody gets out of sight."""
    if sys.platform != "linux":
        yield
        return
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_ADOPTS_NOW, ctypes.byref(before))
    libc.prctl(_ADOPTS, 1)
    try:
        yield
    finally:
        libc.prctl(_ADOPTS, before.value)


def kill(processes: Collection[Process]) -> None:
    """End them, whatever they do with signals, and take leave of this process's own children."""
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.number, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # another's child, or one that its owner has waited for
            os.waitpid(each.number, os.WNOHANG)


def _all() -> Iterator[Process]:
    if not _PROC.is_dir():
        return
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                # Behind the name, which may hold anything: state, parent, and as the 22nd, pages of memory.
                said = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                yield Process(int(folder.name), int(said[1]), said[0], int(said[21]) * _PAGE)


def _share(process: Process) -> int:
    try:
        lines = (_PROC / str(process.number) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _left_of_container() -> Iterator[int]:
    """Of control groups, second version and first: what is not held, or only as a copy of files."""
    for folder, most, held in (
        (_CGROUP, "memory.max", "memory.current"),
        (_CGROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # there is none, or it says "max"
            limit, used = (int((folder / name).read_text()) for name in (most, held))
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield max(0, limit - used + int(stat.get("inactive_file", 0)))
