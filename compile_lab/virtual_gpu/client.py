"""What the parent says to a child, and what it makes of the answer."""

import contextlib
import linecache
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..doors import check_seconds, door
from ..measure.timing import core_left
from ..source import place
from . import server, travel
from .chips import Chip
from .chips import chip as chip_named
from .errors import VirtualGPUError

TIMEOUT_S = 600
LINES, LINE = 3, 300
"""How much is shown of a child's exception: lines, and of each the characters."""


@door
def run(
    chip: str | Chip,
    function: Callable[..., Any],
    /,
    *args: Any,
    timeout_s: float = TIMEOUT_S,
    config: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` in a child process that believes it has that chip ("H200", "H100", "A100", "T4").

    Tensors and modules arrive there on "cuda" as fake tensors: shape, stride, dtype, requires_grad and ties travel,
    values do not. ``torch.compile`` generates its Triton code and loads none of it; a compiled call returns fake
    tensors, so a backward or an optimizer step works too. ``config`` holds options of torch._inductor.config. The
    result comes back pickled; a tensor in it comes back on the "meta" device. What the function prints is printed here.
    No torch setting of this process travels, and none is changed.

    Raises ValueError for an unknown chip or a ``timeout_s`` that is not above 0, TypeError for what cannot travel or a
    function that is none, and VirtualGPUError for everything that went wrong in the child: its exception, its death,
    ``timeout_s`` seconds over.

    A chip that is not known is refused before a child is started:

    >>> from compile_lab.virtual_gpu import run
    >>> run("H300", len, "abc")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    where = chip_named(chip)
    body = _packed((function, args, kwargs), values=False)
    answer = answer_of("generate", "run", where, body, timeout_s, config=dict(config or {}))
    return travel.loads(answer)


@dataclass(frozen=True)
class Begun:
    """What a child is at work on while this process goes on. ``read`` makes the result of what it answers."""

    answer: Future[Any]
    read: Callable[[Any], Any] = field(default=lambda answered: answered, repr=False)

    def result(self) -> Any:
        """Wait for it; raises as `run` does."""
        return self.read(self.answer.result())

    def then(self, ask: Callable[[Any], Any]) -> "Begun":
        """``ask(result)``, in a thread of its own, as soon as there is a result: what it asks of a child is not waited
        for either."""
        return _begun(lambda: ask(self.result()))

    def stop(self) -> None:
        """End the child, if it still works; then there is no result."""
        if not self.answer.cancel():  # the thread that waits has begun, and may yet start a server
            while not self.answer.done():
                server.interrupt("generate")
                time.sleep(0.05)


def _begun(work: Callable[[], Any]) -> Begun:
    answer: Future[Any] = Future()

    def wait() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=wait, daemon=True).start()
    return Begun(answer)


@door
def begin(chip: str | Chip, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Begun:
    """The same as `run`, and does not wait: all but an unknown chip is told where the result is asked for.

    A chip that is not known is refused before a child is started:

    >>> from compile_lab.virtual_gpu import begin
    >>> begin("H300", len, "abc")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    where = chip_named(chip)
    try:
        body = _packed((function, args, kwargs), values=False)  # at once: the caller may change what it has handed over
    except TypeError as error:
        answer: Future[Any] = Future()
        answer.set_exception(error)
        return Begun(answer)
    return _begun(lambda: travel.loads(answer_of("generate", "run", where, body, TIMEOUT_S, config={})))


@contextlib.contextmanager
def started(chip: str | Chip) -> Iterator[None]:
    """While the block runs, the chip's process comes up beside it.

    It keeps the environment of its start: where the block changes that, it is ended, and a request starts another.
    """
    environment, coming = dict(os.environ), server.come_up(chip_named(chip))
    with core_left():
        yield
    if dict(os.environ) != environment:
        while coming.is_alive():
            server.interrupt("generate")
            coming.join(0.05)
        server.stop()


@dataclass(frozen=True)
class Interpreted:
    """What generated kernels computed on the CPU, and how far that is from eager.

    ``outputs`` is what the function returned; ``gradients`` by the name of a parameter or input; ``errors``: for each
    of them, and for each tensor that the function changes ("x afterwards"), the largest difference from eager on the
    same data, relative to eager's largest value; ``launches`` and
    ``kernels`` (sources, as they ran) by kernel.
    """

    outputs: Any
    gradients: Mapping[str, Tensor]
    errors: Mapping[str, float]
    launches: Mapping[str, int]
    kernels: Mapping[str, str]
    chip: Chip

    @property
    def worst(self) -> float:
        """The largest of the errors."""
        return max(self.errors.values(), default=0.0)

    def __repr__(self) -> str:
        where = max(self.errors, key=self.errors.__getitem__, default="")
        counts = f"{len(self.kernels)} kernels for a {self.chip}, {sum(self.launches.values())} launches interpreted"
        return f"{counts}; largest relative error {self.worst:.1e} ({where})"


@door
def interpret(
    fn: Callable[..., Any],
    /,
    *args: Any,
    chip: str | Chip = "H200",
    edit: Mapping[str, str] | Callable[[str, str], str] | None = None,
    timeout_s: float = TIMEOUT_S,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> Interpreted:
    """Are the kernels that Inductor generates for `chip` right? Runs them on CPU tensors by Triton's interpreter.

    ``fn(*args, **kwargs)`` runs twice in a child process, eagerly and compiled for the chip, on copies of the same
    data. What requires grad is differentiated: the loss it returns, or the sum of its outputs. Matmuls and
    attention, which are no Triton kernels, run on the CPU as aten computes them, and so do random numbers, dropout's
    too (Inductor's ``fallback_random``): both sides draw the same from ``seed``. ``edit`` replaces kernels before they
    run: ``{name: source}``, or a function of name and source; so a broken kernel can be put before the judge.

    Raises as `run` does; a VirtualGPUError of kind UnsupportedKernel for a kernel that the interpreter cannot run
    (one that draws random numbers, if ``config`` has ``fallback_random`` off; a device function without a stand-in).

    A chip that is not known is refused before a child is started:

    >>> import torch
    >>> from compile_lab.virtual_gpu import interpret
    >>> interpret(torch.nn.Linear(4, 4), torch.ones(2, 4), chip="H300")
    Traceback (most recent call last):
        ...
    ValueError: no virtual chip is called 'H300'; there is H200, H100, A100, T4
    """
    where = chip_named(chip)
    body = _packed((fn, args, kwargs, edit or {}), values=True)
    answer = answer_of("interpret", "interpret", where, body, timeout_s, config=dict(config or {}), seed=seed)
    return Interpreted(**travel.loads(answer), chip=where)


def answer_of(mode: server.Mode, work: str, chip: Chip, body: bytes, timeout_s: float, **more: Any) -> bytes:
    """Have a child do `work` with `body`: its answer, or its exception as a VirtualGPUError."""
    check_seconds("timeout_s", timeout_s)
    request = {"work": work, "chip": chip, "body": body, "folder": str(Path.cwd())}
    request |= {"path": sys.path, "sources": _sources()}
    reply = server.ask(mode, travel.dumps({**request, **more}, values=False), timeout_s)
    if reply.stdout:
        print(reply.stdout, end="")
    done, *told = server.unpickled(reply)
    if done == "done":
        return told[0]
    kind, message, traceback = told
    raise VirtualGPUError(f"{kind} on the {chip}: {_without_folders(message)}", kind, traceback)


def _packed(thing: Any, *, values: bool) -> bytes:
    try:
        return travel.packed(thing, values=values)
    except (pickle.PicklingError, TypeError, ValueError) as error:
        raise TypeError(f"The function and its arguments must travel to another process, and cannot: {error}") from None


def _sources() -> dict[str, Any]:
    """The source of code that is in no file, such as a notebook's cells: Triton and tracebacks read it."""
    known = linecache.cache.copy()  # at once: the main thread may trace, and so read lines, while this one asks
    return {name: entry for name, entry in known.items() if len(entry) == 4 and not Path(name).exists()}


def _without_folders(message: str) -> str:
    """An exception's own words without folders of this machine; torch's advice and its lists stay in the traceback."""
    message = message.partition("\n\nSet TORCHDYNAMO_VERBOSE")[0].strip()
    message = re.sub(r'File "([^"]+)", line (\d+)', lambda found: place(found[1], int(found[2])), message)
    lines = [line if len(line) <= LINE else f"{line[:LINE]} …" for line in message.splitlines() if line.strip()]
    if len(lines) <= LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:LINES], "(the rest is in this error's .traceback)"])
