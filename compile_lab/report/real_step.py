"""What torch itself makes of the step on this machine: it stands beside each part that an instrument could not tell."""

import re
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import compiled_anew
from ..dynamo.tracing import quiet
from ..eager.flops import work_of
from ..eager.saved import eager_saved
from ..inductor.generated import GeneratedCode
from ..inductor.lowering import collecting
from ..memory.compiled import compiled_lifetimes
from ..memory.eager import eager_lifetimes
from ..memory.ledger import Lifetimes
from ..recordings import here
from ..source import readers_line, stack
from ..tensors import gradients_kept
from .given import GivenModel, raised
from .whole_step import WholeStep, all_kept

NO_COMPILER = re.compile(r"InvalidCxxCompiler|CppCompileError|[Nn]o working C\+\+ compiler")


@dataclass(frozen=True)
class EagerStep:
    """The step as Python runs it: its operations, its matmuls' work, what the backward is left, its memory."""

    ops: int
    flops: int
    forward_flops: int | None
    """None of a whole step: which of its operations are a forward only its author knows."""
    saved_nbytes: int | None
    """What the forward leaves to the backward, where that can be asked."""
    memory: Lifetimes = field(repr=False)


@dataclass(frozen=True)
class CompiledStep:
    """What ``torch.compile`` made of the step on this CPU. ``raised`` is its error in a line; empty where it ran."""

    raised: str = ""
    memory: Lifetimes | None = field(default=None, repr=False)
    """Read off the code that Inductor wrote, where that is the whole step."""

    @property
    def ran(self) -> bool:
        return not self.raised


def eager_step(given: GivenModel) -> EagerStep:
    """Run the step eagerly, a few times: for its work, for what is kept, for its memory."""
    if given.step:
        return _whole(given.step)
    forward = partial(given.loss, *given.args, **given.kwargs)
    forward_flops = work_of(forward).flops
    work = work_of(lambda: _differentiated(given, forward()))
    saved = _kept_for_the_backward(given)
    with gradients_kept(given.model.parameters()):
        memory = eager_lifetimes(lambda: forward().backward(), given.model)
    return EagerStep(work.ops, work.flops, forward_flops, saved, memory)


def _kept_for_the_backward(given: GivenModel) -> int | None:
    """Bytes; None where the forward takes gradients by torch.func, which lets nobody look at what is saved."""
    try:
        return sum(each.extra_nbytes for each in eager_saved(given.loss, *given.args, **given.kwargs))
    except RuntimeError as error:
        if "saved tensor hooks" in str(error):
            return None
        raise


def _whole(step: WholeStep) -> EagerStep:
    with all_kept(step), torch.compiler.set_stance("force_eager"):
        work = work_of(step.run)  # an optimizer has its state from here on
        memory = eager_lifetimes(step.run, step.modules, *step.optimizers)
    return EagerStep(work.ops, work.flops, None, None, memory)


def compiled_step(given: GivenModel) -> CompiledStep | None:
    """Compile loss and backward with Inductor for this CPU, and run both; None for a model without values (``--fake``).

    Raises what torch raises where the machine has no compiler: that says nothing of the step.
    """
    if dispatch_mode_is_active():
        return None
    try:
        with compiled_anew(), quiet(), collecting() as graphs:
            _differentiated(given, torch.compile(given.loss)(*given.args, **given.kwargs))
    except Exception as error:
        if NO_COMPILER.search(f"{type(error).__name__} {error}"):
            raise
        return CompiledStep(_in_a_line(error))
    if not graphs:
        return None  # nothing was compiled, so nothing is said of it
    code = GeneratedCode(tuple(graphs), None, here("compile_lab.report", "cpu"))
    return CompiledStep(memory=compiled_lifetimes(code) if len(graphs) == 2 else None)


def _differentiated(given: GivenModel, loss: Tensor) -> None:
    with gradients_kept(given.model.parameters()):
        loss.backward()


def _in_a_line(error: Exception) -> str:
    """The innermost of the errors that torch packs into one another, and the reader's line where either names one."""
    inner = getattr(error, "inner_exception", None) or error
    said = raised(inner)
    line = readers_line(reversed(stack(str(error))))
    return said if ", at " in said or line is None else f"{said}, at {line}"
