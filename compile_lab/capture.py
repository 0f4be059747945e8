"""What did the compiler say? ``with compilation() as log:`` keeps torch's structured trace as typed events.

torch writes one record for each thing it decides: a graph, a break, a guard tree, a reason to recompile. The parsers
here are pure functions from such a record to a frozen dataclass; a record that nobody parses is counted in
``log.unknown``, never an error. Listening costs no time that can be measured.
"""

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._torch.dynamo import graph_calls_counted, trace_log
from ._torch.inductor import inductor_config
from .doors import door
from .source import Line, place, stack


@dataclass(frozen=True)
class Event:
    """Something the compiler said about one compilation of one frame: ``frame`` reads ``frame/recompilation``."""

    frame: str


@dataclass(frozen=True)
class FrameStarted(Event):
    """Dynamo begins to trace a Python frame."""

    function: str


@dataclass(frozen=True)
class BreakReported(Event):
    """Dynamo could not go on. ``stack`` runs from the call of the compiled function to the line that stopped it."""

    reason: str
    explanation: str
    hints: tuple[str, ...]
    stack: tuple[Line, ...]
    skipped_for: str
    """Why Dynamo could not even split the function here and left all of it to Python; empty if it could."""


@dataclass(frozen=True)
class GraphMade(Event):
    """A graph as readable Python. ``stage``: dynamo, joint, forward, backward or post_grad."""

    stage: str
    code: str


@dataclass(frozen=True)
class GuardTree(Event):
    """The guards of one compiled frame, as Dynamo prints their tree."""

    text: str


@dataclass(frozen=True)
class Recompiled(Event):
    """A frame is compiled again; ``failed`` says, for each earlier compilation, which guard the new input failed."""

    failed: tuple[str, ...]


@dataclass(frozen=True)
class KernelsWritten(Event):
    """The Python module that Inductor generated, kernels included."""

    code: str


@dataclass(frozen=True)
class Measured(Event):
    """torch's own figures for one compilation: ``seconds`` in all, ``guards`` and ``ops`` counted. ``line`` is where
    the function begins; where it failed, torch does not say."""

    function: str
    seconds: float
    guards: int
    ops: int
    failure: str | None
    line: Line | None = None


class NotCompiledError(RuntimeError):
    """What was to be described as compiled code ran eagerly."""


E = TypeVar("E", bound=Event)


@dataclass
class Log:
    """What the compiler said inside one ``with compilation()`` block, in order."""

    events: list[Event] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    graph_calls: int = 0
    """How many times compiled graphs were entered: 0 means that the code ran eagerly, whatever was compiled."""

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def require_compiled(self) -> None:
        """Raise NotCompiledError (a RuntimeError) if no compiled graph ran: what was measured would be eager Python."""
        if not self.graph_calls:
            raise NotCompiledError(
                "No compiled graph ran in this block, so nothing here describes compiled code. A TorchDispatchMode "
                "(FlopCounterMode, CommDebugMode, …) makes torch.compile step aside: call outside it."
            )


@door
@contextmanager
def compilation(*, use_caches: bool = False) -> Iterator[Log]:
    """Listen to every compilation in this process while the block runs.

    Inductor's caches are off unless ``use_caches``: a warm cache leaves out several records. The listener is taken
    away again however the block ends.

    >>> import torch
    >>> from compile_lab.capture import GraphMade, compilation
    >>> with compilation() as log:
    ...     y = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(4))
    >>> [event.stage for event in log.of(GraphMade)], log.graph_calls
    (['dynamo'], 1)
    """
    log = Log()
    handler = _Listener(log)

    def count() -> None:
        log.graph_calls += 1

    trace_log.addHandler(handler)
    try:
        with (
            warnings.catch_warnings(),
            inductor_config.patch(force_disable_caches=not use_caches),
            graph_calls_counted(count),
        ):
            warnings.filterwarnings("ignore", message="dynamo_pgo force disabled")  # our own doing
            yield log
    finally:
        trace_log.removeHandler(handler)


class _Listener(logging.Handler):
    def __init__(self, log: Log):
        super().__init__()
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        metadata, payload = getattr(record, "metadata", None), getattr(record, "payload", None)
        if metadata is None:
            return
        event = parse(metadata, payload or "")
        if event is None:
            self.log.unknown[kind_of(metadata)] += 1
        else:
            self.log.events.append(event)


_ENVELOPE = {"rank", "process", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack"}


def kind_of(metadata: dict[str, Any]) -> str:
    """The name of a record's kind: its one key that is not envelope; for an artifact, the artifact's name."""
    kind = next((key for key in metadata if key not in _ENVELOPE), "empty")
    return metadata["artifact"]["name"] if kind == "artifact" else kind


def parse(metadata: dict[str, Any], payload: str) -> Event | None:
    """One record of the structured trace as a typed event; None for a kind that no parser here knows."""
    parser = _PARSERS.get(kind_of(metadata))
    frame = f"{metadata.get('frame_id')}/{metadata.get('frame_compile_id')}"
    return parser(frame, metadata, payload) if parser else None


def _started(frame: str, metadata: dict[str, Any], _: str) -> FrameStarted:
    stack = metadata["dynamo_start"].get("stack") or [{}]
    return FrameStarted(frame, stack[-1].get("name", "?"))


def _break(frame: str, _metadata: dict[str, Any], payload: str) -> BreakReported:
    said, _, rest = payload.partition("User code traceback:")
    said = said.partition("Graph Break Reason:")[2]
    skipped = "Skipping the function" in said.partition("\n\n")[0]
    # Both preambles say how Dynamo came to the break; the break's own text follows after a blank line.
    if said.lstrip().startswith(("Encountered graph break", "Failed to handle graph break")):
        said = said.partition("\n\n")[2]
    said, _, then = said.partition("*** While handling this graph break, another graph break occurred: ***")
    said = said.partition("Developer debug context:")[0].strip()
    body, *hints = re.split(r"\n\s*Hint: ", said)
    reason, _, explanation = body.partition("\n")
    explanation = explanation.strip().removeprefix("Explanation:")
    traceback = rest.partition("Traceback (most recent call last)")[0]
    skipped_for = (then.strip().partition("\n")[0] or reason.strip()) if skipped else ""
    return BreakReported(
        frame, reason.strip(), _unfold(explanation), tuple(map(_unfold, hints)), stack(traceback), skipped_for
    )


def _unfold(text: str) -> str:
    """A paragraph without its line breaks, and without folders of this machine."""
    text = re.sub(r'File "([^"]+)", line (\d+)', lambda m: place(m[1], int(m[2])), text)
    return " ".join(text.split())


def _recompiled(frame: str, _: dict[str, Any], payload: str) -> Recompiled:
    try:
        reasons = json.loads(payload)
    except json.JSONDecodeError:  # a single reason comes as plain text
        reasons = payload
    reasons = [reasons] if isinstance(reasons, str) else reasons
    return Recompiled(frame, tuple(reason.partition("\nUser stack trace")[0].strip() for reason in reasons))


def _measured(frame: str, metadata: dict[str, Any], _: str) -> Measured:
    said = metadata["compilation_metrics"]
    seconds = said.get("entire_frame_compile_time_s") or 0.0
    counts = said.get("guard_count") or 0, said.get("graph_op_count") or 0
    name, file, first = (said.get(f"co_{each}") for each in ("name", "filename", "firstlineno"))
    line = Line(file, first, name) if name and file and first else None
    return Measured(frame, name or "?", seconds, *counts, said.get("fail_reason"), line)


def _graph(stage: str) -> Callable[[str, dict[str, Any], str], GraphMade]:
    return lambda frame, _, payload: GraphMade(frame, stage, payload)


_PARSERS: dict[str, Callable[[str, dict[str, Any], str], Event]] = {
    "dynamo_start": _started,
    "dynamo_graph_break_reason": _break,
    "dynamo_output_graph": _graph("dynamo"),
    "aot_joint_graph": _graph("joint"),
    "aot_forward_graph": _graph("forward"),
    "aot_backward_graph": _graph("backward"),
    "inductor_post_grad_graph": _graph("post_grad"),
    "dynamo_cpp_guards_str": lambda frame, _, payload: GuardTree(frame, payload),
    "inductor_output_code": lambda frame, _, payload: KernelsWritten(frame, payload),
    "recompile_reasons": _recompiled,
    "compilation_metrics": _measured,
}
