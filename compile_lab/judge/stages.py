"""``stage_at_fault(model, batch)``: if what is compiled is wrong, which of the compiler's stages made it so?

Two of torch's own means, driven by the judge: the ladder of backends, each of which does one stage more, and
`torch._inductor.compiler_bisector`, which turns passes off, one application after another, until the result is right.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from .._torch.bisect import stock_bisection
from .._torch.dynamo import reset_dynamo
from ..capture import NotCompiledError
from ..doors import PrintedRepr, check_whole, door
from .judging import in_a_line, subject_of, units_of, verdict_of

LADDER = {
    "eager": "Dynamo: the graph, or its guards",
    "aot_eager": "AOTAutograd: functionalisation, views, the joint graph",
    "aot_eager_decomp_partition": "decompositions, or the cut into forward and backward",
    "inductor": "Inductor: passes, lowering, scheduling or code",
}
"""torch's backends in order, and what each does that the one before does not."""
RIGHT, WRONG = "right", "wrong"


@dataclass(frozen=True, repr=False)
class StageAtFault(PrintedRepr):
    """``outcomes``: "right", "wrong" or "raises …" for each backend of `LADDER`. ``backend`` is the first that is not
    right, empty if all are; ``subsystem`` what torch's bisector names in it, if it names anything, ``application``
    which time it was applied, and ``applied`` to what."""

    outcomes: Mapping[str, str]
    backend: str = ""
    subsystem: str = ""
    application: int | None = None
    applied: str = field(default="")

    def __str__(self) -> str:
        if not self.backend:
            return "right by every backend"
        told = [f"first wrong: {self.backend}, so {LADDER[self.backend]}"]
        if self.subsystem:
            at = f", application {self.application}" if self.application is not None else ""
            what = f": {self.applied}" if self.applied else ""
            told.append(f"torch's bisector: {self.subsystem}{at}{what}")
        else:
            told.append("torch's bisector names no subsystem of it")
        return "\n".join(told)


@door
def stage_at_fault(
    model: Callable[..., Any],
    batch: Any,
    *,
    change: Callable[[nn.Module], Any] | None = None,
    again: Any = None,
    seed: int = 0,
) -> StageAtFault:
    """Climbs torch's ladder of backends with the judge of `gradients`, and bisects the first that is wrong.

    Takes what `gradients` takes, but for a chip: the ladder is that of this machine. It compiles up to a few dozen
    times: half a minute for a small function. A backend "first wrong" need not be at fault: it may be the first whose
    memory or order brings an earlier stage's fault out.

    >>> import torch
    >>> from compile_lab.judge import stage_at_fault
    >>> print(stage_at_fault(lambda x: x * 0, torch.tensor([1.0, float("inf")])))
    first wrong: inductor, so Inductor: passes, lowering, scheduling or code
    torch's bisector: joint_graph_passes, application 1: constant_fold...
    """
    check_whole("seed", seed, 0)
    subject = subject_of(model, batch, change, seed, again)
    units, _ = units_of(subject)
    return climbed(partial(_outcome, subject, units))


def _outcome(subject: Any, units: Any, backend: str) -> str:
    try:
        verdict = verdict_of(backend, subject, units)
    except NotCompiledError as error:
        return f"not compiled: {in_a_line(error)}"
    return f"raises {verdict.raised}" if verdict.raised else WRONG if verdict.wrong else RIGHT


@door
def climbed(outcome: Callable[[str], str]) -> StageAtFault:
    """The same for anything that can be compiled: ``outcome(backend)`` compiles with that backend of torch's and says
    "right", "wrong", or what kept it from an answer.

    >>> import torch
    >>> from compile_lab.judge import climbed
    >>> nan = torch.tensor([float("nan")])
    >>> def outcome(backend):
    ...     torch.compiler.reset()
    ...     made = torch.compile(lambda x: x * 0, backend=backend)(nan)
    ...     return "right" if made.isnan().all() else "wrong"
    >>> climbed(outcome).subsystem
    'joint_graph_passes'
    """
    outcomes = {backend: outcome(backend) for backend in LADDER}
    first = next((backend for backend, each in outcomes.items() if each != RIGHT), "")
    if not first or outcomes[first] != WRONG:
        return StageAtFault(outcomes, first)

    def is_right() -> bool:
        reset_dynamo()
        return outcome("inductor") == RIGHT  # the bisector puts the backend that it asks about in its place

    try:
        found = stock_bisection(is_right)
    finally:
        torch.compiler.reset()
    _, subsystem, application, applied = found or (first, "", None, "")
    return StageAtFault(outcomes, first, subsystem, application, applied)
