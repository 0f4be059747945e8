"""One capture of a given model, which every card reads: each instrument is asked once, under a time limit.

A part that fails keeps its error, and the others stand. What a card wants of a failed part raises a `PartFailed`, which
says in words what failed, why, and what to do.
"""

import contextlib
import io
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .._torch.triton_kernels import kernels_interpreted
from ..aot.training import TrainingGraphs, training_graphs
from ..dynamo.recompiles import Watched, watch
from ..dynamo.tracing import DynamoTrace
from ..inductor.generated import GeneratedCode, begin_generated
from ..measure.timing import core_left
from ..memory.ledger import Lifetimes
from ..memory.predict import lifetimes
from ..virtual_gpu.assembly import Resources
from ..virtual_gpu.client import Begun
from .advice import ON_TWO_DEVICES, advice
from .given import GivenModel
from .handed import HandedOver, handed_over
from .judged import ENOUGH_S, SHARE, JudgedStep, cured_by, expected_seconds, judged_step
from .limits import LIMIT_S, limited
from .optimizer import OptimizerState, cycled_momentum, learning_rates, optimizer_state
from .parallel import on_devices
from .real_step import CompiledStep, EagerStep, compiled_step, eager_step
from .shares import OnDevices
from .switches import Switched, switched
from .tries import Tried, UnderAutocast, begin_autocast, registers, tried

T = TypeVar("T")
OF_LIMIT = 0.7
"""Of a model that is slow to trace fewer changes of the call are tried: none is begun when the report has taken this
share of a part's limit."""


class PartFailed(Exception):
    """A card asks for a part that failed: ``part`` is its name, ``why`` its error, ``todo`` the way out."""

    def __init__(self, part: str, why: str, todo: str) -> None:
        super().__init__(f"{PARTS[part].label} failed: {why}")
        self.part, self.why, self.todo = part, why, todo


@dataclass(frozen=True)
class ReportOptions:
    """What the reader asked for besides the model. ``pattern`` is one of `PATTERNS`; ``limit_s`` holds for each part;
    the kernels are written beside the others, from the report's begin. ``judge``: also where that takes long."""

    chip: str = "H200"
    devices: int | None = None
    pattern: str = "fsdp"
    limit_s: float = LIMIT_S
    judge: bool = False


class _Part(Generic[T]):
    """A part of a `Captured` by its name. PartFailed if it has none."""

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, found: "Captured", _: type) -> T:
        return found[self.name]


class _PartIfThere(_Part[T | None]):
    """The same, and None where there is nothing of its kind."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __get__(self, found: "Captured", _: type) -> T | None:
        part = found.parts.get(self.name)
        return part if isinstance(part, self.kind) else None


@dataclass(frozen=True)
class Captured:
    """What the instruments said of a model, part by part; a part is a result or an exception."""

    given: GivenModel
    options: ReportOptions
    parts: Mapping[str, Any] = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    begun: Mapping[str, Begun] = field(default_factory=dict, repr=False)
    """The parts that a child is at work on while others are asked."""
    watched: list[Watched] = field(default_factory=list, repr=False)
    """The compiled model, once it has been called as it is: the trace is of that call, and others are tried on it."""
    printed: io.StringIO = field(default_factory=io.StringIO, repr=False)
    """What the reader's code printed meanwhile."""

    trace = _Part[DynamoTrace]()
    tries = _Part[tuple[Tried, ...]]()
    rates = _Part[tuple[str, tuple[bool, ...]]]()
    momentum = _Part[tuple[str, tuple[bool, ...]]]()
    graphs = _Part[TrainingGraphs]()
    code = _Part[GeneratedCode]()
    registers = _Part[Mapping[str, Resources]]()
    casts = _Part[UnderAutocast]()
    sharded = _Part[OnDevices]()
    switched = _PartIfThere(Switched)
    """None where no break hangs on a switch, or where none could be tried."""
    handed = _PartIfThere(HandedOver)
    """None where the reader compiles no part of it by itself, or where that could not be asked."""
    eager = _PartIfThere(EagerStep)
    """None where the graphs hold all of the forward and tell its memory, or where the eager step did not run."""
    compiled = _PartIfThere(CompiledStep)
    """None where no instrument failed, or where torch could not be asked."""

    def __getitem__(self, part: str) -> Any:
        """The result of a part. PartFailed if it has none."""
        if part not in self.parts:
            raise PartFailed(part, "it was not requested", "make the report with all of its parts")
        found = self.parts[part]
        if isinstance(found, PartFailed):
            raise found
        if isinstance(found, BaseException):
            raise PartFailed(part, *advice(found, self.options.limit_s))
        return found

    @property
    def on_two_devices(self) -> str:
        """Where, on a GPU, a tensor of the CPU meets one of the GPU, in torch's words; "" where none does."""
        casts, code = self.parts.get("casts"), self.parts.get("code")
        said = [advice(each, self.options.limit_s)[0] for each in (casts, code) if isinstance(each, Exception)]
        return next((each for each in (*said, *getattr(code, "trouble", ())) if ON_TWO_DEVICES.search(each)), "")

    @property
    def taken_s(self) -> float:
        """Seconds of all parts so far."""
        return sum(self.seconds.values())

    @property
    def state(self) -> OptimizerState:
        """Without its bytes, where they were not asked for."""
        found = self.parts.get("state")
        return (
            found if isinstance(found, OptimizerState) else OptimizerState("the optimizer", True, None, "not requested")
        )

    @property
    def memory(self) -> Lifetimes:
        """Of the eager step, where that was asked."""
        return self.eager.memory if self.eager else self["memory"]


@dataclass(frozen=True)
class CapturePart:
    """One question to an instrument: what it is called on the way, and how it is asked."""

    label: str
    ask: Callable[[Captured], Any]


def _memory(found: Captured) -> Lifetimes:
    """From the code for the chip if all of it is there, else from that for this CPU; from AOTAutograd's graphs if no
    code was asked for: Inductor orders and fuses otherwise, and may hold more. Where none of them does, eager's it is.
    """
    code = found.parts.get("code")
    if isinstance(code, GeneratedCode) and not code.trouble and len(code.graphs) == 2:
        return lifetimes(code)
    if found.compiled and found.compiled.memory and not found.trace.breaks:
        return found.compiled.memory
    if "code" in found.parts:
        raise ValueError("neither the code for the chip nor that for this CPU is one forward and one backward")
    return lifetimes(found.graphs)


def _eager(found: Captured) -> EagerStep | None:
    """Where graphs hold a part of the forward, or do not tell: what can be had of the whole from its eager run."""
    trace, graphs = found.parts.get("trace"), found.parts.get("graphs")
    whole = isinstance(trace, DynamoTrace) and not trace.breaks and isinstance(graphs, TrainingGraphs)
    told = isinstance(found.parts.get("memory", False), Lifetimes | bool)
    runs = not found.compiled or found.compiled.ran
    return None if whole and told and runs and not found.given.step else eager_step(found.given)


def _compiled(found: Captured) -> CompiledStep | None:
    """Asked where an instrument failed: is that the step, or the instrument? And of sparse gradients, which no
    instrument adds up as torch does."""
    looked = [found.parts.get(name) for name in ("trace", "graphs", "code")]
    failed = any(isinstance(each, Exception) or getattr(each, "trouble", ()) for each in looked)
    return compiled_step(found.given) if failed or found.given.sparse else None


def _begun(found: Captured, part: str) -> Any:
    """A child has been at work on it while the parts before this one were asked."""
    try:
        return found.begun[part].result()
    finally:
        found.begun[part].stop()


def _registers(found: Captured) -> Mapping[str, Resources]:
    return _begun(found, "registers") if found.code else {}


def _trace(found: Captured) -> DynamoTrace:
    """Of the first call of the compiled model, which stays compiled for the next part."""
    watched = watch(found.given.model)
    watched(*found.given.args, **found.given.kwargs)
    found.watched.append(watched)
    return watched.calls[0].trace


def _tried(found: Captured) -> tuple[Tried, ...]:
    left = OF_LIMIT * found.options.limit_s - found.taken_s
    return tried(found.given, left, found.watched.pop() if found.watched else None)


def _judged(found: Captured) -> JudgedStep:
    """Last, since what it takes is weighed against all that the report has taken."""
    most = None if found.options.judge else max(ENOUGH_S, SHARE * found.taken_s)
    graphs, code = found.parts.get("graphs"), found.parts.get("code")
    return judged_step(found.given, most, expected_seconds(graphs, found.seconds.get("graphs", 0.0), code))


PARTS: Mapping[str, CapturePart] = {
    "trace": CapturePart("Dynamo's trace", _trace),
    "tries": CapturePart("other batches and modes", _tried),  # at once: what other parts ask makes Dynamo forget
    "switched": CapturePart("torch's switches for values", lambda f: switched(f.given, f.trace)),
    "handed": CapturePart("the parts that you compile yourself", lambda f: handed_over(f.given)),
    "rates": CapturePart("other learning rates", lambda f: learning_rates(f.given.optimizer)),
    "momentum": CapturePart("a momentum that cycles", lambda f: cycled_momentum(f.given.optimizer)),
    "state": CapturePart("the optimizer's state", lambda f: optimizer_state(f.given)),
    "graphs": CapturePart(
        "the joint graph of AOTAutograd", lambda f: training_graphs(f.given.loss, *f.given.args, **f.given.kwargs)
    ),
    "sharded": CapturePart(
        "the step on several devices", lambda f: on_devices(f.given, f.options.devices or 1, f.options.pattern)
    ),
    # From here on the virtual GPU is asked, which has been at work since the report began.
    "code": CapturePart("the kernels for the virtual GPU", lambda f: _begun(f, "code")),
    "compiled": CapturePart("the step on this machine's CPU", _compiled),
    "memory": CapturePart("the lifetimes of buffers", _memory),
    "eager": CapturePart("the eager step", _eager),
    "casts": CapturePart("autocast on the virtual GPU", lambda f: _begun(f, "casts")),
    "registers": CapturePart("the machine code of the largest kernels", _registers),
    "cured": CapturePart("a switch for what nothing writes", lambda f: cured_by(f.given, f.parts.get("code"))),
    "judged": CapturePart("the judge of the compiled step", _judged),
}


def captured(
    given: GivenModel,
    options: ReportOptions | None = None,
    only: Iterable[str] | None = None,
    progress: Callable[[str], None] = lambda label: None,
) -> Captured:
    """Ask every instrument once; ``only`` some of `PARTS`, in their order. ``progress`` is told each as it begins."""
    options = options or ReportOptions()
    parts: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    asked = report_parts(options) if only is None else tuple(name for name in PARTS if name in set(only))
    begun: dict[str, Begun] = {}
    with given.fakes:
        if "casts" in asked:  # first: it takes a moment, and is there where the time does not suffice for the code
            begun["casts"] = begin_autocast(given, options.chip)
        if "code" in asked:
            begun["code"] = begin_generated(options.chip, given.loss, *given.args, **given.kwargs)
            if "registers" in asked:
                begun["registers"] = begun["code"].then(registers)
    found = Captured(given, options, parts, seconds, begun)
    beside = contextlib.ExitStack()
    try:
        if begun:
            beside.enter_context(core_left())
        for name in asked:
            progress(PARTS[name].label)
            start, left = time.perf_counter(), options.limit_s - (found.taken_s if name == "code" else 0)
            try:
                with limited(left), contextlib.redirect_stdout(found.printed), given.fakes, kernels_interpreted():
                    parts[name] = PARTS[name].ask(found)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an exit, too: kept, and told by each card that asks for the part
                parts[name] = error.with_traceback(None)
            seconds[name] = time.perf_counter() - start
            if name in begun and not begun.keys() - parts.keys():
                beside.close()  # the child is done. Not before: torch's guards are of the number of threads, too
    finally:
        beside.close()
        for each in begun.values():
            each.stop()
    return found


def report_parts(options: ReportOptions) -> tuple[str, ...]:
    """The parts of a report with these options."""
    return tuple(name for name in PARTS if name != "sharded" or options.devices)
