"""Run this function on N ranks: ``ranks.run(fn, n)`` starts N real processes from a notebook's cell, and never hangs.

Every rank is a process of its own with an initialised process group, as under ``torchrun``; gloo carries the messages
between CPUs, NCCL between GPUs. The processes are forked from a server that has torch imported, which takes a fraction
of a second once it is there. They meet in a file, so there is no port that could be taken.
"""

import itertools
import json
import linecache
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from ..doors import check_whole, door
from ..measure.child import end_group
from ..pickling import dumps
from ..source import Line, is_users
from . import rank_process
from .rank_process import Run

PRELOADED = (
    "torch.distributed.tensor.parallel",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "compile_lab.devices.rank_process",
    "tqdm",  # makes a semaphore, which each rank would leave behind
)
LIMIT_S = 600.0
"""For a call to come to its end, if nobody says otherwise: also on a slow machine that does other things."""
GRACE_S = 0.3
"""For a rank to write where it is, and for a second failure to show next to a first."""
LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "remote process exited")
"""What a rank says whose partner is gone: not the cause, which then shows within `CAUSE_S`."""
CAUSE_S = 5.0
LOOK_S, UNSEEN_S = 0.01, 0.1
"""Between two looks at gloo's threads, and where they cannot be looked at."""
_COMPARE = "If the ranks may disagree about a collective, env={'TORCH_DISTRIBUTED_DEBUG': 'DETAIL'} compares each one"


class RankFailed(RuntimeError):
    """A rank raised, was killed, or did not come to an end. No rank is left running.

    ``rank`` is the one that was first, or None if the time was over. The message holds that rank's own traceback, or
    for each rank where it was.
    """

    def __init__(self, message: str, rank: int | None) -> None:
        super().__init__(message)
        self.rank = rank


@door
def run(
    fn: Callable[..., Any],
    n: int,
    *args: Any,
    timeout: float = LIMIT_S,
    backend: str = "gloo",
    env: dict[str, str] | None = None,
    echo: bool = True,
    **kwargs: Any,
) -> list[Any]:
    """What ``fn(*args, **kwargs)`` returned on each of ``n`` ranks, by rank.

    In ``fn``, ``dist.get_rank()`` and the collectives work at once. Functions of a notebook travel with the globals
    that they use; modules are imported anew. With ``backend="nccl"`` rank r computes on ``cuda:r``. Each rank has one
    CPU thread, the caller's environment, and ``env`` on top. ``timeout``, in seconds, is for the whole run.

    ``echo``: what the ranks printed is printed here at the end, rank after rank.

    Raises RankFailed; ValueError for a number of ranks that is none, or of GPUs that are not there; TypeError for a
    function that cannot be sent to another process, and for an ``env`` that is not text. Whatever happens, no process
    is left: not when the cell is interrupted, nor when the caller is killed. In a script, call it under
    ``if __name__ == "__main__":``.

    What cannot go is refused before a rank is started:

    >>> from compile_lab.devices.ranks import run
    >>> run(print, 2, "hello", backend="mpi")
    Traceback (most recent call last):
        ...
    ValueError: backend='mpi': it is 'gloo', for CPUs, or 'nccl', for GPUs
    """
    _check(n, timeout, backend)
    job = _packed(fn, args, kwargs)
    context = _server()
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        run = Run(Path(folder), n, backend, timeout, os.environ | {"GLOO_SOCKET_IFNAME": _loopback()} | (env or {}))
        (run.folder / "job").write_bytes(job)
        processes = [context.Process(target=rank_process.main, args=(run, rank)) for rank in range(n)]
        try:
            for process in processes:
                process.start()
            failed = _failure(run, processes)
            if echo:  # what failing ranks say on stderr is part of the exception
                _echo(run, {"stdout": sys.stdout} if failed else {"stdout": sys.stdout, "stderr": sys.stderr})
            if failed:
                raise failed
            return [_value(run, rank) for rank in range(n)]
        finally:
            _end(processes)


@dataclass(frozen=True)
class Ending:
    """What became of one rank: its value; or what it raised, and its exit status, negative if a signal ended it.

    ``status`` is None for a rank that had to be ended.
    """

    value: Any
    raised: str
    status: int | None


@door
def endings(
    fn: Callable[..., Any],
    n: int,
    *args: Any,
    timeout: float = LIMIT_S,
    patience: float | None = None,
    after: float = 2.0,
    env: dict[str, str] | None = None,
) -> list[Ending]:
    """What became of each of ``n`` ranks over gloo that run ``fn(*args)``, as under a launcher that ends nobody.

    ``patience`` is the group's own time-out, in seconds, by which a collective that waits raises. Ranks that still run
    ``after`` seconds after the first one failed, or when ``timeout`` is over, are ended. Raises as `run`, but no
    RankFailed; no process is left.

    What cannot go is refused before a rank is started:

    >>> from compile_lab.devices.ranks import endings
    >>> endings(print, 2, "hello", timeout=0)
    Traceback (most recent call last):
        ...
    ValueError: timeout=0: it is a number of seconds above 0
    """
    _check(n, timeout, "gloo")
    job = _packed(fn, args, {})
    context = _server()
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        environment = os.environ | {"GLOO_SOCKET_IFNAME": _loopback()} | (env or {})
        run = Run(Path(folder), n, "gloo", timeout, environment, patience)
        (run.folder / "job").write_bytes(job)
        processes = [context.Process(target=rank_process.main, args=(run, rank)) for rank in range(n)]
        try:
            for process in processes:
                process.start()
            end = time.monotonic() + timeout
            alive = {process.sentinel: process for process in processes}
            while alive and (ended := wait(list(alive), timeout=max(0.0, end - time.monotonic()))):
                if any(alive.pop(sentinel).exitcode for sentinel in ended):
                    end = min(end, time.monotonic() + after)
            return [_ending(run, rank, process.exitcode) for rank, process in enumerate(processes)]
        finally:
            _end(processes)


def settle() -> None:
    """Wait, on a rank, until gloo's threads are at rest. Call it after a step, before its profiler is stopped.

    gloo completes a collective's future, which DDP waits for, and tells the profiler afterwards (``finishWorkGloo`` of
    torch's ProcessGroupGloo.cpp). A profiler that was stopped between the two has freed what is then written to: the
    rank dies of SIGSEGV, or later of what was overwritten ("malloc(): unaligned tcache chunk").
    """
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():  # no Linux: gloo's threads are out of sight
        time.sleep(UNSEEN_S)
        return
    looks = 0
    while looks < 2:  # one may be between two of its instructions
        time.sleep(LOOK_S)
        looks = looks + 1 if all(map(_rests, tasks.iterdir())) else 0


def _rests(task: Path) -> bool:
    """Whether this thread of ours is none of gloo's, or sleeps."""
    try:
        name, state = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
    except OSError:  # it has come to its end
        return True
    return not name.startswith("pt_gloo_runloop") or state.split()[0] == "S"


def _ending(run: Run, rank: int, status: int | None) -> Ending:
    file = run.file("failure", rank)
    raised = json.loads(file.read_text())["message"] if status and file.exists() else ""
    return Ending(_value(run, rank) if status == 0 else None, raised, status)


def _check(n: int, timeout: float, backend: str) -> None:
    check_whole("n", n)
    if not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: it is a number of seconds above 0")
    if backend not in ("gloo", "nccl"):
        raise ValueError(f"backend={backend!r}: it is 'gloo', for CPUs, or 'nccl', for GPUs")
    if backend == "nccl" and n > (there := torch.cuda.device_count()):
        raise ValueError(f"n={n} ranks need {n} GPUs with NCCL, and {there} are here; take backend='gloo'")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise ValueError(f"ranks.run forks its processes, and {sys.platform} cannot; run it on Linux or macOS")


def _packed(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
    try:
        return dumps((fn, args, kwargs))
    except Exception as error:
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(
            f"{name} cannot be sent to another process ({error}); make what it needs inside it, "
            "or hand over plain values"
        ) from error


def _server() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _loopback() -> str:
    return os.environ.get("GLOO_SOCKET_IFNAME") or ("lo0" if sys.platform == "darwin" else "lo")


def _failure(run: Run, processes: Sequence[Any]) -> RankFailed | None:
    """Wait until all ranks have ended well (None), one has not, or the time is over."""
    end = time.monotonic() + run.timeout_s
    alive = {process.sentinel: process for process in processes}
    while alive:
        ended = wait(list(alive), timeout=max(0.0, end - time.monotonic()))
        if not ended:
            return _too_late(run, processes)
        if any(alive.pop(sentinel).exitcode for sentinel in ended):
            return _first_failure(run, processes)
    return None


def _first_failure(run: Run, processes: Sequence[Any]) -> RankFailed:
    """A rank that was killed comes before those that raised, and of these the earliest: the others only lost it."""
    wait_until = time.monotonic() + CAUSE_S
    time.sleep(GRACE_S)
    while (first := _earliest(run)) is not None and _only_lost(first[1]) and _killed(run, processes) is None:
        if time.monotonic() > wait_until or all(process.exitcode is not None for process in processes):
            break
        time.sleep(0.05)
    if (rank := _killed(run, processes)) is not None:
        status = processes[rank].exitcode
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        said = "".join(f"\n  {line}" for line in [*_crash(run, rank), *_printed(run, "stderr", rank)[-5:]])
        return RankFailed(f"rank {rank} of {run.ranks} {how}, and the others were ended{said and ':'}{said}", rank)
    assert first is not None, "a rank that was not killed says how it failed"
    rank, failure = first
    lines = [f"rank {rank} of {run.ranks} failed, and the others were ended. What it ran, outermost first:"]
    lines += [f"  {_frame(Line(*frame))}" for frame in failure["frames"]]
    lines.append(failure["message"])
    if _only_lost(failure) and (gone := [r for r, process in enumerate(processes) if process.exitcode == 0]):
        lines.append(f"Ended before, with no error of their own: {', '.join(f'rank {r}' for r in gone)}. {_COMPARE}")
    return RankFailed("\n".join(lines), rank)


def _frame(line: Line) -> str:
    text = linecache.getline(line.file, line.line).strip()
    return f"{line}, in {line.function}" + (f": {text}" if text else "")


def _crash(run: Run, rank: int) -> list[str]:
    """Where a signal found a rank; nothing for SIGKILL, which leaves no time to write. Of several threads the one that
    it came to or, where that is C++ alone, the main one, which is written last.
    """
    file = run.file("crash", rank)
    threads = re.split(r"^(?=Thread |Current thread )", file.read_text() if file.exists() else "", flags=re.MULTILINE)
    stacks = sorted((each for each in threads if _frames(each)), key=lambda each: each.startswith("Current"))
    if not stacks:
        return []
    return ["What it ran, outermost first:", *(_frame(line) for line in reversed(_frames(stacks[-1])))]


def _killed(run: Run, processes: Sequence[Any]) -> int | None:
    """The first rank that ended badly and could not say why."""
    ended = (rank for rank, process in enumerate(processes) if process.exitcode)
    return next((rank for rank in ended if not run.file("failure", rank).exists()), None)


def _earliest(run: Run) -> tuple[int, dict[str, Any]] | None:
    """The rank that was the first to say how it failed, and what it said."""
    files = {rank: run.file("failure", rank) for rank in range(run.ranks)}
    failures = {rank: json.loads(file.read_text()) for rank, file in files.items() if file.exists()}
    return min(failures.items(), key=lambda item: item[1]["at"], default=None)


def _only_lost(failure: dict[str, Any]) -> bool:
    return any(text in failure["message"] for text in LOST)


def _too_late(run: Run, processes: Sequence[Any]) -> RankFailed:
    """Where is each rank? Asked by a signal, upon which a rank writes its stack, innermost frame first."""
    asked = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for rank in asked:
        os.kill(processes[rank].pid, signal.SIGUSR1)
    time.sleep(GRACE_S)
    lines = [f"no end after {run.timeout_s:g} s, so all {run.ranks} ranks were ended. Where they were:"]
    lines += [f"  rank {rank} " + (_where(run, rank) if rank in asked else "had ended") for rank in range(run.ranks)]
    return RankFailed("\n".join([*lines, _COMPARE]), None)


def _where(run: Run, rank: int) -> str:
    file = run.file("stack", rank)
    frames = _frames(file.read_text() if file.exists() else "")
    if not frames:
        return "was starting"
    users = next((frame for frame in frames if is_users(frame.file)), frames[-1])
    inside = f", inside {frames[0].function}" if users is not frames[0] else ""
    return f"was in {users.function}, {users}{inside}"


def _frames(stack: str) -> list[Line]:
    """What the function called, innermost first, of a stack as faulthandler writes it."""
    found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', stack)
    lines = [Line(name, int(line), function) for name, line, function in found]
    return list(itertools.takewhile(lambda line: line.file != rank_process.__file__, lines))


def _value(run: Run, rank: int) -> Any:
    return pickle.loads(run.file("value", rank).read_bytes())


# What gloo and torch's C++ say about themselves: names of hosts and interfaces, in no fixed order.
_NOISE = re.compile(r"\[(Gloo\] |[WIE]\d{4} )")


def _printed(run: Run, stream: str, rank: int) -> list[str]:
    file = run.file(stream, rank)
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return [line for line in lines if not _NOISE.match(line)]


def _echo(run: Run, streams: dict[str, Any]) -> None:
    for rank in range(run.ranks):
        for name, stream in streams.items():
            for line in _printed(run, name, rank):
                print(f"[rank {rank}] {line}", file=stream)


def _end(processes: Sequence[Any]) -> None:
    """End the ranks that still run, and what any of them has started and left."""
    processes = [process for process in processes if process.pid is not None]
    for process in processes:
        end_group(process)
    for process in processes:
        process.join()
