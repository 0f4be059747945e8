"""A process that waits beside this one and forks a child for each request: ``ask(mode, request) -> reply``.

torch and Inductor take seconds to import, and a virtual GPU changes both beyond repair. So one server a mode imports
them once, when first asked, and each request gets a fork of it that is thrown away. The server ends with this
process, however that ends: it reads the end of its socket. A request that takes too long, or that the user
interrupts, takes the server with it, and the next one starts a new server.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..measure.child import end_group
from .build import library
from .chips import Chip
from .errors import VirtualGPUError

Mode = Literal["generate", "interpret"]
START_S = 600

# The C++ file must be in the process before torch is; sys.path is the parent's, so the same torch is found. libstdc++
# comes first and for all: loaded for the C++ file alone, it ended torch 2.11's import with "free(): invalid pointer".
_BOOT = """
import ctypes, json, sys
library, path, fd = sys.argv[1:]
sys.path[:] = json.loads(path)
ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
guard = ctypes.CDLL(library)
from compile_lab.virtual_gpu.child import serve
serve(int(fd), guard)
"""


@dataclass(frozen=True)
class Reply:
    """``answer`` is what the child wrote (empty if it died), ``status`` how it ended, as subprocess says it."""

    answer: bytes
    status: int
    stdout: str
    stderr: str


def ask(mode: Mode, request: bytes, timeout_s: float) -> Reply:
    """Send a request to the server of that mode, start it if need be, and wait for the reply.

    Raises VirtualGPUError on a timeout or where no server can be started; passes KeyboardInterrupt on. In each of
    these cases nothing is left running.
    """
    if sys.platform != "linux":
        raise VirtualGPUError(f"A virtual GPU needs Linux, for Triton is made for it alone; this is {sys.platform}.")
    with _lock:
        server = _servers.get((os.getpid(), mode))  # after a fork the parent's server is not ours
        if server is None or not server.alive():
            server = _servers[os.getpid(), mode] = _Server(mode)
        try:
            return server.ask(request, timeout_s)
        except BaseException:
            server.kill()
            del _servers[os.getpid(), mode]
            raise


def come_up(chip: Chip) -> threading.Thread:
    """Have the server start, and its process for that chip, in a thread: the first request takes six seconds without.

    It needs no torch here, so torch can be imported meanwhile. Why it could not start, the first request is told.
    """

    def nothing() -> None:
        request = {"work": "nothing", "chip": chip, "body": pickle.dumps(((), b"")), "sources": {}}
        request |= {"path": sys.path, "folder": str(Path.cwd())}
        with contextlib.suppress(VirtualGPUError, OSError):
            ask("generate", pickle.dumps(request), START_S)

    thread = threading.Thread(target=nothing, daemon=True)
    thread.start()
    return thread


class _Server:
    def __init__(self, mode: Mode):
        self.socket, theirs = socket.socketpair()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (kept as long as the server)
        command = [sys.executable, "-c", _BOOT, str(library()), json.dumps(_absolute(sys.path)), str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=_environment(mode),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.log,
                start_new_session=True,  # Ctrl-C in a terminal is ours to handle, and killpg reaches all of it
            )

    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: bytes, timeout_s: float) -> Reply:
        self.socket.settimeout(timeout_s)
        try:
            send(self.socket, request)
            reply = receive(self.socket)
        except TimeoutError:
            raise VirtualGPUError(
                f"The virtual GPU gave no answer within {timeout_s:g} s and was stopped. Give it longer with "
                "timeout_s=, or a smaller model."
            ) from None
        except ConnectionError:
            reply = None
        if reply is None:
            raise VirtualGPUError(f"The virtual GPU's process ended before it could answer.{self._last_words()}")
        return pickle.loads(reply)

    def _last_words(self) -> str:
        self.process.wait()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return f" Its last words: {lines[-1]}" if lines else ""

    def end(self) -> None:
        end_group(self.process)

    def kill(self) -> None:
        self.end()
        self.process.wait()
        self.socket.close()
        self.log.close()


_servers: dict[tuple[int, str], _Server] = {}
_lock = threading.Lock()


@atexit.register
def stop() -> None:
    """End this process's servers. The next request starts them anew."""
    for key in [key for key in _servers if key[0] == os.getpid()]:
        _servers.pop(key).kill()


def interrupt(mode: Mode) -> None:
    """End the server of that mode while another thread waits for its reply: that one is told, and clears up."""
    if server := _servers.get((os.getpid(), mode)):
        server.end()


def _environment(mode: Mode) -> dict[str, str]:
    environment = dict(os.environ)
    # A real GPU is hidden, so that a machine with one and a machine without take the same road.
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCH_WARM_POOL": "0"}
    environment["TRITON_INTERPRET"] = "1" if mode == "interpret" else "0"
    return environment


def _absolute(path: list[str]) -> list[str]:
    return [os.path.abspath(folder) for folder in path]  # noqa: PTH100 ("" is the current folder)


def send(sock: socket.socket, message: bytes) -> None:
    sock.sendall(struct.pack("!Q", len(message)) + message)


def receive(sock: socket.socket) -> bytes | None:
    """The next message whole; None at the end of the stream."""
    head = _exactly(sock, 8)
    return None if head is None else _exactly(sock, struct.unpack("!Q", head)[0])


def _exactly(sock: socket.socket, n: int) -> bytes | None:
    parts: list[bytes] = []
    while n:
        part = sock.recv(min(n, 1 << 20))
        if not part:
            return None
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def description(status: int) -> str:
    """How a process ended: ``was killed by SIGSEGV``, ``ended with exit code 3``."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit code {status}"


def unpickled(reply: Reply) -> Any:
    """What the child wrote, or a VirtualGPUError that says how it died."""
    if reply.status or not reply.answer:
        lines = reply.stderr.strip().splitlines()
        said = f" It last wrote: {lines[-1]}" if lines else ""
        raise VirtualGPUError(f"The virtual GPU's child {description(reply.status)} without an answer.{said}")
    return pickle.loads(reply.answer)
