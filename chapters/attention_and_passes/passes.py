"""What does a pass of your own do to Inductor's graphs, is it right, and does it pay? ``with_pass(own, fn, *args)``.

A pass is a function that changes an ``fx.Graph``. Inductor calls it at one of five stages. Here a function is compiled
without it and with it: the graphs are pictured before and after the pass, the results and gradients are compared to
the bit, and where bits differ, both are held against float64. Nothing here measures time.
"""

import functools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import fx

from compile_lab._torch.dispatcher import dispatch_mode_is_active
from compile_lab._torch.dynamo import compiled_anew
from compile_lab._torch.passes import KeyedPass
from compile_lab.capture import compilation
from compile_lab.doors import check_whole, door
from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.lowering import collecting
from compile_lab.recordings import here
from compile_lab.tensors import tensors

from .passes_graph import NodeChange, PictureNode, broken, differences, moved, pictured, result_kinds
from .passes_judged import JudgedTensor, Outcome, judged_tensors, outcome, truth

GraphChanger = Callable[[fx.Graph], None]

STAGES = {
    "pre_grad": "pre_grad_custom_pass",
    "joint_pre": "joint_custom_pre_pass",
    "joint_post": "joint_custom_post_pass",
    "post_grad_pre": "post_grad_custom_pre_pass",
    "post_grad_post": "post_grad_custom_post_pass",
}
"""Where Inductor asks a pass, in order, and its option for it: over the captured graph, over forward and backward
together before and after its own passes, over each of the two before and after its own passes."""


class PassError(ValueError):
    """What is wrong with a pass: names it, the rule, and the way out."""


@dataclass(frozen=True)
class PassRun:
    """One graph that the pass was given: captured, joint, forward or backward; before and after."""

    graph: str
    before: tuple[PictureNode, ...] = field(repr=False)
    after: tuple[PictureNode, ...] = field(repr=False)

    @property
    def changes(self) -> tuple[NodeChange, ...]:
        """Nodes removed, added and changed."""
        return differences(self.before, self.after)

    @property
    def moved(self) -> bool:
        """True if nodes only stand in another order."""
        return moved(self.before, self.after)

    def count(self, kind: str) -> int:
        """How many nodes are ``removed``, ``added`` or ``changed``."""
        return sum(change.kind == kind for change in self.changes)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(kind)} {kind}" for kind in ("removed", "added", "changed"))
        return f"{self.graph} graph, {len(self.before)} → {len(self.after)} nodes: {counts}"


@dataclass(frozen=True)
class PassReport:
    """What a pass did, whether results stayed, and what Inductor wrote without and with it."""

    name: str
    stage: str
    runs: tuple[PassRun, ...]
    judged: tuple[JudgedTensor, ...] = field(repr=False)
    code_without: GeneratedCode = field(repr=False)
    code_with: GeneratedCode = field(repr=False)

    @property
    def verdict(self) -> str:
        """``same bits``; ``other bits``, as near to float64 as without the pass; or ``wrong``."""
        if all(each.same_bits for each in self.judged):
            return "same bits"
        return "wrong" if any(each.is_wrong for each in self.judged) else "other bits"

    @property
    def did_nothing(self) -> bool:
        """True if no graph was changed."""
        return not any(run.changes or run.moved for run in self.runs)

    @property
    def kernels(self) -> tuple[int, int]:
        """Launches without and with the pass."""
        return len(self.code_without.kernels), len(self.code_with.kernels)

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes that these read and write, without and with the pass, as Inductor counts them."""
        return _moved_nbytes(self.code_without), _moved_nbytes(self.code_with)

    @property
    def worst(self) -> JudgedTensor:
        """The result or gradient that is wrong, else the one that is furthest apart."""
        return max(self.judged, key=lambda each: (each.is_wrong, not each.same_bits, each.apart))

    def __str__(self) -> str:
        kernels, nbytes = (f"{a:,} → {b:,}" for a, b in (self.kernels, self.nbytes))
        what = "did nothing" if self.did_nothing else "; ".join(map(str, self.runs))
        head = f"{self.name} at {self.stage}: {what}. {kernels} kernels, {nbytes} bytes"
        return f"{head}. {self.verdict}" + ("" if self.verdict == "same bits" else f": {self.worst}")


def _moved_nbytes(code: GeneratedCode) -> int:
    return sum(kernel.nbytes for kernel in code.kernels)


@door
def with_pass(
    own: GraphChanger,
    fn: Callable[..., Any],
    *args: Any,
    stage: str = "post_grad_pre",
    chip: str | None = None,
    seed: int = 0,
) -> PassReport:
    """Compile ``fn(*args)`` and its backward without and with the pass ``own``, and judge the two.

    ``fn`` is a module or function of tensors; gradients are those of what it returns along directions drawn from
    ``seed``, with respect to each leaf that needs one. With ``chip`` ("H200", …) the kernels and bytes are those for
    that chip; the results are always computed where the inputs are. No ``.grad``, no buffer of ``fn`` and no input is
    changed. What is right on one input may be wrong on the next: judge on several.

    Raises PassError, naming the pass, if it raises, breaks the graph, or never ran; ValueError for a stage that is
    none; and whatever ``fn`` itself raises.
    """
    stage_option(stage)
    check_whole("seed", seed, 0)
    recorder, key = _PassRecorder(own, stage), uuid.uuid4().hex  # no cache answers with another pass's code
    try:
        passed, code_with = _compiled(fn, args, {stage_option(stage): KeyedPass(recorder, key)}, seed)
    except Exception as reason:
        recorder.require_sound()
        _compiled(fn, args, {}, seed)  # raises what has nothing to do with the pass
        told = str(reason).strip().partition("\n")[0]
        raise PassError(
            f"{recorder.name} breaks the graph: without it everything compiles, with it there is a "
            f"{type(reason).__name__}: {told}. Look at what it puts into the graph"
        ) from reason
    recorder.require_sound()  # where Dynamo is told to go on after errors
    if not recorder.runs:
        raise PassError(
            f"{recorder.name} never ran: no graph came by the stage {stage}. Does {name_of(fn)} compute anything with "
            "tensors, and is it compiled at all?"
        )
    plain, code_without = _compiled(fn, args, {}, seed)
    if chip is not None:
        code_without = generated_code(fn, *args, chip=chip)
        code_with = generated_code(fn, *args, chip=chip, options={stage_option(stage): KeyedPass(own, key)})
    judged = judged_tensors(plain, passed, truth(fn, args, seed))
    return PassReport(recorder.name, stage, tuple(recorder.runs), judged, code_without, code_with)


def name_of(own: Any) -> str:
    """What the reader calls a pass."""
    if isinstance(own, functools.partial):
        return name_of(own.func)
    return getattr(own, "__name__", type(own).__name__)


@door
def stage_option(stage: str) -> str:
    """Inductor's option for a pass at that stage; ValueError lists the stages."""
    if stage not in STAGES:
        raise ValueError(f"stage={stage!r} is not known; it is one of {', '.join(map(repr, STAGES))}")
    return STAGES[stage]


class _PassRecorder:
    """The pass, with pictures around it; ``refused`` is what was wrong with it."""

    def __init__(self, own: GraphChanger, stage: str) -> None:
        self.own, self.stage, self.name = own, stage, name_of(own)
        self.runs: list[PassRun] = []
        self.refused: PassError | None = None

    def __call__(self, graph: fx.Graph) -> None:
        before, results = pictured(graph), result_kinds(graph)
        try:
            self.own(graph)
        except Exception as reason:
            self.refused = PassError(f"{self.name} raised {type(reason).__name__}: {reason}. {self._at(before)}")
            raise self.refused from reason
        if why := broken(graph, before, results):
            self.refused = PassError(f"{self.name} breaks the graph: {why}. {self._at(before)}")
            raise self.refused
        self.runs.append(PassRun(self._kind(before), before, pictured(graph)))

    def require_sound(self) -> None:
        """Raise what was wrong with the pass, if anything was."""
        if self.refused is not None:
            raise self.refused from self.refused.__cause__

    def _at(self, before: Sequence[PictureNode]) -> str:
        return f"It was given the {self._kind(before)} graph of {len(before)} nodes, at the stage {self.stage}"

    def _kind(self, before: Sequence[PictureNode]) -> str:
        if self.stage == "pre_grad":
            return "captured"
        tangents = any(node.op == "input" and node.name.startswith("tangents") for node in before)
        if self.stage.startswith("joint"):
            return "joint" if tangents else "inference"
        return "backward" if tangents else "forward"


def _compiled(
    fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], seed: int
) -> tuple[Outcome, GeneratedCode]:
    with compiled_anew():
        with compilation(use_caches=True) as log, collecting() as graphs:
            found = outcome(fn, args, seed, {"fx_graph_cache": False, **options})
        if graphs or dispatch_mode_is_active():
            log.require_compiled()
    provenance = here("compile_lab.inductor.with_pass", device=_device(args))
    return found, GeneratedCode(tuple(graphs), None, provenance)


def _device(args: tuple[Any, ...]) -> Literal["cpu"] | None:
    return None if any(tensor.is_cuda for tensor in tensors(args)) else "cpu"
