"""What does each checkpoint strategy really cost? Bytes predicted, held and at the peak, work and time, one by one.

Every strategy is measured in a fresh state: nothing compiled is left, no gradient, nothing cached. Bytes are counted
above what was there before the step: the parameters and the batch are not among them, the gradients are.
"""

import contextlib
import gc
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.aot import aot_pieces, functorch_config
from .._torch.dynamo import reset_dynamo
from .._torch.inductor import inductor_config, inductor_partitioner
from ..aot.nodes import is_work, node_flops
from ..aot.training import returned
from ..capture import compilation
from ..doors import door
from ..eager.flops import Work, work_of
from ..measure.allocator import peak
from ..measure.judge import gradient_error
from ..measure.timing import samples_us, summary_us, wait
from ..memory.eager import eager_lifetimes
from ..memory.measured import measure_step
from ..memory.predict import lifetimes
from ..tensors import nbytes, storage_nbytes, storage_of
from .plan import BudgetPlan
from .strategies import Strategy

SAMPLES = {"cuda": 9, "cpu": 3}


@dataclass(frozen=True)
class Cost:
    """One strategy, measured. Bytes are above what was there before the step."""

    strategy: Strategy
    saved_nbytes: int | None
    """Predicted, besides inputs and parameters: what the partitioner saves, or what an eager step on a CPU is seen to
    keep; None where nothing predicts it."""
    held_nbytes: int
    """Still there when the forward is done."""
    forward_peak_nbytes: int | None
    """The most during the forward; None where it was not looked at by itself."""
    peak_nbytes: int
    """The most during the step."""
    gradients_nbytes: int
    """The gradients of the parameters, which are there at the end, and for a part at the peak."""
    time_ms: float
    low_ms: float
    high_ms: float
    ops: int
    """Operations of the step that are no views: as dispatched, or in the two graphs."""
    recomputed: int
    """Those of them that run a second time; in eager torch 2.11 with two more of the checkpoint's own for a segment."""
    flops: int
    """Of matmuls, convolutions and attention in the step."""
    loss: float
    gradient_error: float
    """The largest difference from the gradients without a strategy, over the parameters, in parts of the largest
    entry of the parameter's gradient."""
    compile_s: float | None = None
    fits: bool | None = None
    """Whether a step ran under the memory limit, with that loss; None where there was no limit."""
    loss_under_limit: float | None = None
    predicted_peak_nbytes: int | None = None
    """By the lifetimes of the graphs or of the eager step; None where nothing predicts it."""

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Cost":
        """Of what the recording keeps."""
        given = found["strategy"]
        name = given["name"].replace("products", "matmuls")  # recorded before the strategy was called so
        return cls(**{**found, "strategy": Strategy(**{**given, "name": name, "keep": tuple(given["keep"])})})


@dataclass(frozen=True)
class Split:
    """What a partitioner decided, in figures."""

    saved_nbytes: int
    recomputed: int
    work: Work


@door
class Subject:
    """A model with its batch: runs a step by a strategy. On a GPU under bf16 autocast, on a CPU in float32.

    >>> import torch
    >>> from compile_lab.checkpointing import Subject
    >>> subject = Subject(torch.nn.Linear(4, 1), (torch.ones(4),), "cpu")
    >>> loss = subject.step(subject.model)
    >>> sorted(subject.gradients())
    ['bias', 'weight']
    """

    def __init__(self, model: nn.Module, args: tuple[Tensor, ...], device: str) -> None:
        self.model, self.args, self.device = model, args, device

    def forward(self, fn: Callable[..., Tensor]) -> Tensor:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            return fn(*self.args)

    def step(self, fn: Callable[..., Tensor]) -> Tensor:
        """Forward and backward from no gradients; the loss, without its graph."""
        self.forget()
        loss = self.forward(fn)
        loss.backward()
        return loss.detach()

    def forget(self) -> None:
        """No gradients."""
        self.model.zero_grad(set_to_none=True)

    def gradients(self) -> dict[str, Tensor]:
        """By name, of the parameters that have one."""
        grads = {name: parameter.grad for name, parameter in self.model.named_parameters()}
        return {name: grad.clone() for name, grad in grads.items() if grad is not None}


@door
def reference(subject: Subject) -> tuple[dict[str, Tensor], float]:
    """The gradients without a strategy, and how far those of a second such step are from them.

    >>> import torch
    >>> from compile_lab.checkpointing import Subject, reference
    >>> gradients, error = reference(Subject(torch.nn.Linear(4, 1), (torch.ones(4),), "cpu"))
    >>> gradients["weight"], error
    (tensor([[1., 1., 1., 1.]]), 0.0)
    """
    subject.step(subject.model)
    expected = subject.gradients()
    subject.step(subject.model)
    return expected, gradient_error(subject.gradients(), expected)


@door
def measured(
    subject: Subject, strategy: Strategy, expected: dict[str, Tensor], limit_nbytes: int | None = None
) -> Cost:
    """One strategy from a fresh state. Raises NotCompiledError if it is compiled and the compiled code did not run.

    >>> import torch
    >>> from compile_lab.checkpointing import NONE, Subject, measured, reference
    >>> subject = Subject(torch.nn.Linear(4, 1), (torch.ones(4),), "cpu")
    >>> cost = measured(subject, NONE, reference(subject)[0])
    >>> cost.recomputed, cost.gradients_nbytes, cost.gradient_error
    (0, 20, 0.0)
    """
    _fresh(subject)
    applied, saved, peak, compile_s = strategy.applied(subject.model), None, None, None
    fn: Callable[..., Tensor] = applied
    if strategy.compiled:
        fn, split, compile_s = _compiled(subject, strategy, applied)
        saved, recomputed, work = split.saved_nbytes, split.recomputed, split.work
    else:
        work = work_of(lambda: subject.step(fn))
        recomputed = work.ops - work_of(lambda: subject.step(subject.model)).ops
        if subject.device == "cpu":
            subject.forget()  # gradients from before would be freed in the step, as if it gave memory back
            seen = eager_lifetimes(lambda: subject.step(fn), subject.model)
            saved, peak = seen.held_nbytes, seen.peak_nbytes
    cost = Cost(
        strategy,
        saved,
        **_run(subject, fn, expected, limit_nbytes),
        ops=work.ops,
        recomputed=recomputed,
        flops=work.flops,
        compile_s=compile_s,
        predicted_peak_nbytes=peak,
    )
    _fresh(subject)
    return cost


@door
def measured_plan(subject: Subject, plan: BudgetPlan, expected: dict[str, Tensor]) -> Cost:
    """A plan of the compiler's, its graphs run as they are. The subject is the one that was planned for, on a CPU.

    >>> import torch
    >>> from compile_lab.checkpointing import Subject, measured_plan, plans, reference
    >>> subject = Subject(torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Tanh()), (torch.ones(4),), "cpu")
    >>> cost = measured_plan(subject, plans(subject.model, *subject.args, budgets=[0.5])[0], reference(subject)[0])
    >>> cost.strategy.name, cost.saved_nbytes, cost.recomputed, cost.gradient_error < 1e-6
    ('budget 0.5', 4, 0, True)
    """
    _fresh(subject)
    return Cost(
        Strategy(f"budget {plan.budget:g}", compiled=True, budget=plan.budget),
        plan.saved_nbytes,
        **_run(subject, lambda *args: plan.step(), expected),
        ops=plan.work.ops,
        recomputed=plan.recomputed.ops,
        flops=plan.work.flops,
        predicted_peak_nbytes=lifetimes(plan.graphs).peak_nbytes,
    )


def _run(
    subject: Subject, fn: Callable[..., Tensor], expected: dict[str, Tensor], limit_nbytes: int | None = None
) -> dict[str, Any]:
    """What is to be had from running the step: loss, gradients, bytes, time, and whether it fits."""
    loss = float(subject.step(fn))
    error = gradient_error(subject.gradients(), expected)
    memory = _memory(subject, fn)
    taken = summary_us(samples_us(lambda: subject.step(fn), subject.device, samples=SAMPLES[subject.device]))
    under = None if limit_nbytes is None else _under(limit_nbytes, subject, fn)
    return {
        **memory,
        "gradients_nbytes": nbytes(expected),
        "time_ms": taken["median_us"] / 1e3,
        "low_ms": taken["low_us"] / 1e3,
        "high_ms": taken["high_us"] / 1e3,
        "loss": loss,
        "gradient_error": error,
        "fits": None if limit_nbytes is None else under is not None,
        "loss_under_limit": under,
    }


def _fresh(subject: Subject) -> None:
    reset_dynamo()
    subject.forget()
    gc.collect()
    if subject.device == "cuda":
        torch.cuda.empty_cache()


def _compiled(subject: Subject, strategy: Strategy, fn: nn.Module) -> tuple[Callable[..., Tensor], Split, float]:
    """The compiled model, what its partitioner decided, and the seconds of the first step."""
    compiled = torch.compile(fn)
    with strategy.context(), _partitions() as found, compilation(use_caches=True) as log:
        start = time.perf_counter()
        subject.step(compiled)
        wait(subject.device)
        seconds = time.perf_counter() - start
    log.require_compiled()
    if len(found) != 1:
        raise RuntimeError(f"the model was compiled as {len(found)} graphs with a backward, and should be one")
    return compiled, found[0], seconds


@contextlib.contextmanager
def _partitions() -> Iterator[list[Split]]:
    """What Inductor's partitioner decides while the block runs: it is asked each time, not AOTAutograd's cache."""
    found: list[Split] = []
    split_graph = aot_pieces().min_cut_partition

    def partition(joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any) -> Any:
        forward, backward = split_graph(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        found.append(split_of(forward, backward, num_fwd_outputs))
        return forward, backward

    listening = inductor_partitioner(partition)
    with (
        functorch_config.patch(enable_autograd_cache=False),
        inductor_config.patch(custom_partitioner_fn=listening),
    ):
        yield found


def split_of(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, num_fwd_outputs: int) -> Split:
    """Saved bytes (each buffer once, inputs and parameters not), operations that run twice, and the work of both."""
    inputs = _buffers(forward.graph.find_nodes(op="placeholder"))
    saved = _buffers(returned(forward.graph)[num_fwd_outputs:])
    saved_nbytes = sum(nbytes for storage, nbytes in saved.items() if storage not in inputs)
    nodes = [node for part in (forward, backward) for node in part.graph.nodes if is_work(node)]
    twice = len(nodes) - len({node.name for node in nodes})
    return Split(saved_nbytes, twice, Work(len(nodes), sum(map(node_flops, nodes))))


def _buffers(nodes: Iterable[Any]) -> dict[int, int]:
    """The memory behind each node that is a tensor, with its bytes."""
    values = [node.meta.get("val") for node in nodes if isinstance(node, torch.fx.Node)]
    return {storage_of(value): storage_nbytes(value) for value in values if isinstance(value, Tensor)}


def _memory(subject: Subject, fn: Callable[..., Tensor]) -> dict[str, int | None]:
    if subject.device != "cuda":
        step = measure_step(lambda: subject.forward(fn), reset=subject.forget)
        return {"held_nbytes": step.held_nbytes, "forward_peak_nbytes": None, "peak_nbytes": step.peak_nbytes}
    subject.forget()
    gc.collect()
    torch.cuda.empty_cache()
    with peak(subject.device) as forward:
        loss = subject.forward(fn)
    with peak(subject.device) as backward:
        loss.backward()
    before, first, most = forward.before_nbytes, forward.rise_nbytes, backward.peak_nbytes
    assert before is not None and first is not None and most is not None  # a GPU's allocator counts
    return {"held_nbytes": forward.held_nbytes, "forward_peak_nbytes": first, "peak_nbytes": max(first, most - before)}


def _under(limit_nbytes: int, subject: Subject, fn: Callable[..., Tensor]) -> float | None:
    """The loss of a step that may take so much above what is there, or None if it runs out of memory."""
    subject.forget()
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + limit_nbytes) / total)
    try:
        return float(subject.step(fn))
    except torch.cuda.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # they hold the activations
        return None
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        subject.forget()
