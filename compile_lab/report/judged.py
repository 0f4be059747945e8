"""Is the step right once it is compiled? The judge, asked of a given model, where that costs little beside the report.

Judged is what Inductor makes of the model for this machine; its code for the chip is read for results that nothing
writes, which takes no compilation of its own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from .._torch.dispatcher import dispatch_mode_is_active
from ..aot.training import TrainingGraphs
from ..capture import NotCompiledError
from ..inductor.generated import GeneratedCode, generated_code
from ..judge.judging import SWITCHES, Verdict, in_a_line, subject_of, units_of, unwritten_results, verdict_of
from .given import GivenModel
from .real_step import NO_COMPILER, compiled_step

ENOUGH_S, SHARE = 15.0, 0.2
"""The judge is asked if it is thought to take so many seconds, or such a share of what the report has taken."""
TRACED_AGAIN, KERNEL_S, OPS_A_KERNEL = 2.0, 1.3, 10
"""What compiling is thought to take: so many times what tracing took, and for each kernel the seconds of one core that
a C++ compiler takes. Where no code tells how many kernels there are, one has so many operations."""
OP_S, BYTE_S = 0.006, 3e-8
"""What rounding's measure takes: seconds for each operation of the joint graph, and for each byte of their results."""
MOST_ELEMENTS = 30_000_000
"""Of parameters: of each gradient a dozen copies are held at once, some of them in float64."""


@dataclass(frozen=True)
class JudgedStep:
    """``verdict`` is None where nothing was judged, and ``skipped`` why; ``refused`` says that of single results.
    ``costly``: it is only for what it takes. ``ours``: what it raises is the judge's own, since the step runs compiled.
    """

    verdict: Verdict | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""
    costly: bool = False
    ours: bool = False


def judged_step(given: GivenModel, at_most_s: float | None, expected_s: float) -> JudgedStep:
    """The verdict on two calls of the model, compiled as one. With ``at_most_s`` nothing is compiled that is expected
    to take longer."""
    if reason := _cannot_be_judged(given):
        return JudgedStep(skipped=reason)
    if reason := _takes_too_much(given, at_most_s, expected_s):
        return JudgedStep(skipped=reason, costly=True)
    subject = subject_of(given.model, dict(given.kwargs) or given.args, None, 0)
    try:
        units, refused = units_of(subject)
    except Exception as error:  # eagerly the step has run: an operation may have no kernel for float64
        return JudgedStep(skipped=f"the judge cannot run the step exactly, which is its limit ({in_a_line(error)})")
    try:
        verdict = verdict_of("inductor", subject, units)
    except NotCompiledError as error:
        return JudgedStep(refused=refused, skipped=in_a_line(error))
    if NO_COMPILER.search(verdict.raised):
        return JudgedStep(refused=refused, skipped=f"this machine builds no kernels: {verdict.raised}")
    alone = compiled_step(given) if verdict.raised else None
    return JudgedStep(verdict, refused, ours=alone is not None and alone.ran)


def expected_seconds(graphs: object, graphs_s: float, code: object) -> float:
    """What the judge is thought to take, from what the report knows by then."""
    nodes = [node for each in graphs.each for node in each.joint.nodes] if isinstance(graphs, TrainingGraphs) else []
    nbytes = [node.nbytes for node in nodes if node.is_op]
    ops = len(nbytes)
    kernels = len(code.written) if isinstance(code, GeneratedCode) else ops / OPS_A_KERNEL
    compiling = TRACED_AGAIN * graphs_s + KERNEL_S * kernels / (os.cpu_count() or 1)
    return compiling + OP_S * ops + BYTE_S * sum(nbytes)


def _cannot_be_judged(given: GivenModel) -> str:
    """Why the judge has no answer, whatever it takes; "" if it may have one."""
    if dispatch_mode_is_active():
        return "the model was built without memory, so there are no numbers to compare"
    if given.sparse:
        return f"the gradient of `{given.sparse[0]}` is sparse, and the judge compares dense ones"
    return ""


def _takes_too_much(given: GivenModel, at_most_s: float | None, expected_s: float) -> str:
    elements = sum(each.numel() for each in given.model.parameters())
    if elements > MOST_ELEMENTS:
        return f"of {elements:,} parameters a dozen copies would have to be held at once"
    if at_most_s is not None and expected_s > at_most_s:
        return f"running it often, and building its kernels for this machine, would take about {expected_s:.0f} s"
    return ""


def unwritten(given: GivenModel, code: object) -> tuple[str, ...] | None:
    """What the code for the chip returns and nothing writes; None where there is no code."""
    return unwritten_results(code, given.model) if isinstance(code, GeneratedCode) and code.graphs else None


def cured_by(given: GivenModel, code: GeneratedCode | None) -> str:
    """The option of Inductor's without which its code for the chip writes all results; "" if none is needed, or none
    helps. Each is tried."""
    if code is None or not unwritten(given, code):
        return ""
    chip = code.chip

    def without(option: str) -> tuple[str, ...]:
        made = generated_code(given.loss, *given.args, chip=chip, options={option: False}, **given.kwargs)
        return unwritten_results(made, given.model)

    return next((each for each in SWITCHES if not without(each)), "")
