"""One capture of a given model, which every card reads: each instrument is asked once, under a time limit.

A part that fails keeps its error, and the others stand. What a card wants of a failed part raises a `PartFailed`, which
says in words what failed, why, and what to do.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..aot.training import TrainingGraphs, training_graphs
from ..dynamo.tracing import DynamoTrace, trace
from ..inductor.generated import GeneratedCode, begin_generated
from ..memory.graphs import lifetimes_in_turn
from ..memory.ledger import Lifetimes
from ..memory.predict import lifetimes
from ..precision.casts import TypedTrace
from ..virtual_gpu.client import Begun
from .advice import advice
from .given import GivenModel
from .tries import OnDevices, Registers, Tried, autocast_trace, learning_rates, on_devices, registers, tried

OF_LIMIT = 0.7
"""Of a model that is slow to trace fewer changes of the call are tried: none is begun when the report has taken this
share of a part's limit."""
LIMIT_S = 70
AGAIN_S = 5.0
"""After so many seconds once more, for Python ignores what is raised while it cleans up after an object."""


class PartTookTooLong(BaseException):
    """The time of a part is over. No Exception, so that nobody on the way takes it for an answer."""


class PartFailed(Exception):
    """A card asks for a part that failed: ``part`` is its name, ``why`` its error, ``todo`` the way out."""

    def __init__(self, part: str, why: str, todo: str) -> None:
        super().__init__(f"{PARTS[part].told} failed: {why}")
        self.part, self.why, self.todo = part, why, todo


@dataclass(frozen=True)
class ReportOptions:
    """What the reader asked for besides the model. ``pattern`` is "ddp" or "fsdp"; ``limit_s`` holds for each part; the
    kernels are written beside the others, from the report's begin."""

    chip: str = "H200"
    devices: int | None = None
    pattern: str = "fsdp"
    limit_s: float = LIMIT_S


@dataclass(frozen=True)
class Captured:
    """What the instruments said of a model, part by part; a part is a result or an exception."""

    given: GivenModel
    options: ReportOptions
    parts: Mapping[str, Any] = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    begun: Begun | None = field(default=None, repr=False)
    """The kernels for the chip, which a child writes while other parts are asked."""

    def __getitem__(self, part: str) -> Any:
        """The result of a part. PartFailed if it has none."""
        found = self.parts.get(part)
        if found is None:
            raise PartFailed(part, "it was not asked for", "make the report with all of its parts")
        if isinstance(found, PartFailed):
            raise found
        if isinstance(found, BaseException):
            raise PartFailed(part, *advice(found, self.options.limit_s))
        return found

    @property
    def taken_s(self) -> float:
        """Seconds of all parts so far."""
        return sum(self.seconds.values())

    @property
    def trace(self) -> DynamoTrace:
        return self["trace"]

    @property
    def tries(self) -> tuple[Tried, ...]:
        return self["tries"]

    @property
    def rates(self) -> tuple[str, tuple[bool, ...]]:
        return self["rates"]

    @property
    def graphs(self) -> TrainingGraphs:
        return self["graphs"]

    @property
    def code(self) -> GeneratedCode:
        return self["code"]

    @property
    def memory(self) -> Lifetimes:
        return self["memory"]

    @property
    def registers(self) -> Mapping[str, Registers]:
        return self["registers"]

    @property
    def casts(self) -> TypedTrace:
        return self["casts"]

    @property
    def sharded(self) -> OnDevices:
        return self["sharded"]


@dataclass(frozen=True)
class CapturePart:
    """One question to an instrument: what it is called on the way, and how it is asked."""

    told: str
    ask: Callable[[Captured], Any]


def _memory(found: Captured) -> Lifetimes:
    """From the code for the chip if all of it is there, else from AOTAutograd's graphs; of several, an upper bound."""
    code = found.parts.get("code")
    whole = isinstance(code, GeneratedCode) and not code.trouble and len(code.graphs) == 2
    if whole:
        return lifetimes(code)
    return lifetimes_in_turn(found.graphs.each) if found.graphs.others else lifetimes(found.graphs)


def _code(begun: Begun) -> GeneratedCode:
    """A child has written it while the parts before this one were asked."""
    try:
        return begun.result()
    finally:
        begun.stop()


PARTS: Mapping[str, CapturePart] = {
    "trace": CapturePart("Dynamo's trace", lambda f: trace(f.given.model, *f.given.args, **f.given.kwargs)),
    "rates": CapturePart("other learning rates", lambda f: learning_rates(f.given.optimizer)),
    "graphs": CapturePart(
        "the joint graph of AOTAutograd", lambda f: training_graphs(f.given.loss, *f.given.args, **f.given.kwargs)
    ),
    "sharded": CapturePart(
        "the step on several devices", lambda f: on_devices(f.given, f.options.devices, f.options.pattern)
    ),
    "tries": CapturePart("other batches and modes", lambda f: tried(f.given, OF_LIMIT * f.options.limit_s - f.taken_s)),
    # From here on the virtual GPU is asked, which has been at work on the code since the report began.
    "code": CapturePart("the kernels for the virtual GPU", lambda f: _code(f.begun)),
    "memory": CapturePart("the lifetimes of buffers", _memory),
    "registers": CapturePart("the machine code of the largest kernels", lambda f: registers(f.code)),
    "casts": CapturePart("autocast on the virtual GPU", lambda f: autocast_trace(f.given, f.options.chip)),
}


def captured(
    given: GivenModel,
    options: ReportOptions | None = None,
    only: Iterator[str] | tuple[str, ...] | None = None,
    progress: Callable[[str], None] = lambda told: None,
) -> Captured:
    """Ask every instrument once; ``only`` some of `PARTS`. ``progress`` is told each part before it begins."""
    options = options or ReportOptions()
    parts: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    asked = asked_parts(options) if only is None else tuple(only)
    begun = None
    if "code" in asked:
        with given.fakes:
            begun = begin_generated(options.chip, given.loss, *given.args, **given.kwargs)
    found = Captured(given, options, parts, seconds, begun)
    try:
        for name in asked:
            progress(PARTS[name].told)
            start = time.perf_counter()
            try:
                with limited(options.limit_s - (found.taken_s if name == "code" else 0)), given.fakes:
                    parts[name] = PARTS[name].ask(found)
            except (Exception, PartTookTooLong) as error:  # kept, and told by each card that asks for the part
                parts[name] = error.with_traceback(None)
            seconds[name] = time.perf_counter() - start
    finally:
        if begun:
            begun.stop()
    return found


def asked_parts(options: ReportOptions) -> tuple[str, ...]:
    """The parts of a report with these options."""
    return tuple(name for name in PARTS if name != "sharded" or options.devices)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise PartTookTooLong in the block after so many seconds; outside the main thread, and on Windows, no limit.

    What is left of a time that is over is a moment: what is ready by then is taken.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def over(*_: Any) -> None:
        raise PartTookTooLong(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1), AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
