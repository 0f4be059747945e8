"""The other side of ``server``: imports torch once, forks once for each chip, and of that fork one for each request.

The C++ part is loaded before this module is imported. A chip's fork changes torch for good into one that has this chip,
and compiles something small, so that its own forks need not set up Inductor again: that is most of a small request.
"""

import contextlib
import ctypes
import gc
import linecache
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from .._torch.virtual_gpu import virtual_gpu_pieces
from ..measure.timing import collected_seldom
from . import fake_cuda, travel
from .chips import Chip
from .errors import UnsupportedKernel
from .server import Reply, receive, send

PRINTED = 1_000_000
"""Bytes of what a child prints that are kept of its beginning, and as many of its end."""


def serve(fd: int, guard: ctypes.CDLL) -> None:
    """Answer requests until the parent is gone."""
    virtual_gpu_pieces()  # the slow imports, once for all forks
    chips: dict[Chip, socket.socket] = {}
    with socket.socket(fileno=fd) as parent:
        while (request := receive(parent)) is not None:
            chip = pickle.loads(request)["chip"]
            if chip not in chips:
                chips[chip] = _with_chip(chip, guard, [parent, *chips.values()])
            send(chips[chip], request)
            _wait([chips[chip]], parent)
            if (reply := receive(chips[chip])) is None:
                return  # the chip's fork has died, and its last words are in the log
            send(parent, reply)


def _with_chip(chip: Chip, guard: ctypes.CDLL, others: list[socket.socket]) -> socket.socket:
    """Fork a process that has the chip, and answers what comes through the socket that is returned."""
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours
    status = 1
    try:
        for other in (ours, *others):
            other.close()
        fake_cuda.install(chip, guard)
        if os.environ["TRITON_INTERPRET"] == "0":  # the interpreter's compiler is another
            fake_cuda.warm_up()
        with collected_seldom():  # and never what all forks share: looking at it would copy it for each of them
            while (request := receive(theirs)) is not None:
                send(theirs, pickle.dumps(_forked(theirs, request)))
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(status)


def _forked(parent: socket.socket, request: bytes) -> Reply:
    travel.imported(pickle.loads(request)["body"])
    gc.freeze()
    (read, write), (out, its_out), (err, its_err) = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        parent.close()
        os.dup2(its_out, 1), os.dup2(its_err, 2)
        for each in (read, out, err, its_out, its_err):
            os.close(each)
        said = answer(request)
        sys.stdout.flush(), sys.stderr.flush()  # while somebody reads: the answer is the last that is read
        with os.fdopen(write, "wb") as file:
            file.write(said)
        os._exit(0)
    for each in (write, its_out, its_err):
        os.close(each)
    answered, printed = bytearray(), {out: _Printed(), err: _Printed()}
    _read({read: answered.extend, out: printed[out].add, err: printed[err].add}, read, parent)
    _, status = os.waitpid(child, 0)
    return Reply(bytes(answered), os.waitstatus_to_exitcode(status), printed[out].text, printed[err].text)


@dataclass
class _Printed:
    """What was printed, of a flood its beginning and its end."""

    head: bytes = b""
    tail: bytes = b""
    nbytes: int = 0

    def add(self, part: bytes) -> None:
        room = PRINTED - len(self.head)
        self.nbytes += len(part)
        self.head += part[:room]
        self.tail = (self.tail + part[room:])[-PRINTED:]

    @property
    def text(self) -> str:
        left_out = self.nbytes - len(self.head) - len(self.tail)
        told = f"\n… {left_out:,} bytes are left out …\n" if left_out else ""
        return self.head.decode(errors="replace") + told + self.tail.decode(errors="replace")


def _read(takes: dict[int, Callable[[bytes], None]], last: int, parent: socket.socket) -> None:
    """Take what comes until the pipe ``last`` ends, and then what the others hold; a fork may print on."""
    while last in takes:
        for pipe in _wait([*takes], parent):
            if part := os.read(pipe, 1 << 20):
                takes[pipe](part)
            else:
                del takes[pipe]
                os.close(pipe)
    for pipe in _wait([*takes], parent, 0):
        takes[pipe](os.read(pipe, 1 << 20))
    for pipe in takes:
        os.close(pipe)


def _wait(answers: Collection[int | socket.socket], parent: socket.socket, timeout_s: float | None = None) -> list[Any]:
    """Which can be read. The parent says nothing meanwhile: if its socket is readable, it is gone."""
    ready, _, _ = select.select([*answers, parent], [], [], timeout_s)
    if parent in ready:
        os.killpg(0, signal.SIGKILL)
    return ready


def answer(request: bytes) -> bytes:
    """The pickled ("done", result) or ("raised", kind, message, traceback) of one request."""
    try:
        asked = pickle.loads(request)
        sys.path[:] = asked["path"]
        with contextlib.suppress(OSError):
            os.chdir(asked["folder"])
        linecache.cache.update(asked["sources"])
        return pickle.dumps(("done", _WORK[asked["work"]](asked)))
    except BaseException as error:
        said = _own(error)
        return pickle.dumps(("raised", type(said).__name__, str(said), traceback.format_exc()))


def _own(error: BaseException) -> BaseException:
    """Our own refusal, if that is what torch wrapped in an error of its own; else the error."""
    inner: BaseException | None = error
    while inner and not isinstance(inner, UnsupportedKernel) and type(inner).__name__ != "ValueUnknown":
        inner = inner.__cause__ or inner.__context__
    return inner or error


def _run(request: dict[str, Any]) -> bytes:
    travel.landing = "cuda"
    with fake_cuda.tracing(request["config"]):
        function, args, kwargs = travel.unpacked(request["body"])
        return travel.dumps(function(*args, **kwargs), values=False)


def _interpret(request: dict[str, Any]) -> bytes:
    from .judging import judged

    return travel.dumps(judged(request["body"], request["config"], request["seed"]), values=True)


def _launch(request: dict[str, Any]) -> bytes:
    from .launching import launched

    return travel.dumps(launched(request["body"]), values=True)


_WORK: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "run": _run,
    "interpret": _interpret,
    "launch": _launch,
    "nothing": lambda request: b"",
}
