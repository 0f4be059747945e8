"""What does the compiler decide under a memory budget, operation by operation? One trace, a plan for each budget.

A plan holds the two graphs that the partitioner made for its budget, runs a training step with them as they are (no
code is generated), and says of each operation of the forward whether its result is saved or computed again, with the
bytes that saving costs and the arithmetic that computing it again costs.
"""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from .._torch.aot import aot_pieces
from .._torch.dynamo import compiled_anew
from ..aot.nodes import is_work, node_flops
from ..aot.partition import budgeted
from ..aot.training import Backend, TrainingGraphs, snapshot
from ..capture import compilation
from ..doors import check_whole, door
from ..eager.flops import Work
from ..source import Line


@dataclass(frozen=True)
class Decision:
    """What became of an operation of the forward, or of several alike (``count`` of them, the rest is of one)."""

    op: str
    source: Line | None
    shape: tuple[int, ...]
    nbytes: int
    """Bytes of its result: what saving it keeps."""
    flops: int
    """Floating-point operations to compute it again; 0 for what is no matmul, convolution or attention."""
    saved: int
    """Of so many the result is kept for the backward."""
    recomputed: int
    """So many run again in the backward."""
    count: int


@dataclass(frozen=True)
class BudgetPlan:
    """A memory budget, the graphs that came of it, and a training step that runs them."""

    budget: float
    graphs: TrainingGraphs
    step: Callable[[], Tensor] = field(repr=False, compare=False)
    """Runs the forward on the arguments that were traced; its result is the loss, whose ``backward`` runs the other."""

    @property
    def saved_nbytes(self) -> int:
        """Predicted: what the forward hands to the backward, besides inputs and parameters."""
        return self.graphs.saved_nbytes

    @functools.cached_property
    def work(self) -> Work:
        """Of both graphs."""
        nodes = [*_work_nodes(self.graphs.forward.module), *_work_nodes(self.graphs.backward.module)]
        return Work(len(nodes), sum(map(node_flops, nodes)))

    @functools.cached_property
    def recomputed(self) -> Work:
        """Of what runs in the backward for a second time."""
        first = {node.name for node in _work_nodes(self.graphs.forward.module)}
        nodes = [node for node in _work_nodes(self.graphs.backward.module) if node.name in first]
        return Work(len(nodes), sum(map(node_flops, nodes)))

    def decisions(self) -> tuple[Decision, ...]:
        """One for each kind of operation of the forward, those with equal operation, line and shape together."""
        again = {node.name for node in _work_nodes(self.graphs.backward.module)}
        kept = {each.view_of or each.name for each in self.graphs.saved}
        # A member of a tuple is what is saved of an operation with several results.
        makers = {node.name: node.inputs[0] for node in self.graphs.forward.nodes if node.op == "getitem"}
        kept = {makers.get(name, name) for name in kept}
        alike: dict[tuple[Any, ...], list[torch.fx.Node]] = defaultdict(list)
        for node in _work_nodes(self.graphs.joint.module):
            known = self.graphs.joint[node.name]
            if known.direction == "forward":
                place = (known.source.file, known.source.line) if known.source else None
                alike[known.op, place, known.shape, known.nbytes].append(node)
        found = []
        for (op, _, shape, nbytes), nodes in alike.items():
            names = {node.name for node in nodes}
            source = self.graphs.joint[nodes[0].name].source
            counts = len(names & kept), len(names & again), len(nodes)
            found.append(Decision(op, source, shape or (), nbytes, node_flops(nodes[0]), *counts))
        return tuple(found)


@door
def plans(model: torch.nn.Module, *args: Tensor, budgets: Sequence[float] = (1.0, 0.5, 0.0)) -> tuple[BudgetPlan, ...]:
    """A plan for each budget of ``activation_memory_budget``, from one trace of ``model(*args)``, which is a loss.

    The graphs are those that torch.compile partitions: Inductor's decompositions and its passes over the joint graph.
    Raises ValueError for a budget out of range, a model that breaks into several graphs, or one with nothing to train.

    >>> import torch
    >>> from compile_lab.checkpointing import plans
    >>> layers = [torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)]
    >>> for plan in plans(torch.nn.Sequential(*layers), torch.ones(4), budgets=(1.0, 0.0)):
    ...     print(plan.budget, plan.saved_nbytes, plan.recomputed.ops)
    1.0 16 6
    0.0 0 12
    """
    chosen = tuple(budgets)
    for budget in chosen:
        budgeted(budget)
    backend = _Planner(chosen)
    with compiled_anew(), compilation() as log:
        torch.compile(model, backend=backend)(*args)
    log.require_compiled()
    if backend.captured != 1 or not backend.parts:
        raise ValueError(f"{backend.captured} graphs were captured, and one with a backward is needed to plan for")
    boxed = [[aot_pieces().boxed_nop(each, ()) for each in parts] for parts in backend.parts]
    inputs = tuple(backend.inputs)
    return tuple(
        BudgetPlan(budget, graphs, _Graphs(forward, backward, graphs.outputs, inputs))
        for budget, graphs, (forward, backward) in zip(chosen, backend.found, boxed, strict=True)
    )


@door
def saved_blocks(plan: BudgetPlan, least_nbytes: int) -> tuple[int, ...]:
    """The indices of a model's blocks in which a tensor of at least so many bytes is made and saved.

    >>> import torch
    >>> from compile_lab.checkpointing import plans, saved_blocks
    >>> model = torch.nn.Sequential()
    >>> model.blocks = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    >>> saved_blocks(plans(model, torch.ones(4), budgets=[1.0])[0], least_nbytes=16)
    (1,)
    """
    large = [each.name for each in plan.graphs.saved if each.extra_nbytes >= least_nbytes]
    modules = [plan.graphs.forward[name].module for name in large]
    return tuple(sorted({int(name.split(".")[1]) for name in modules if name.startswith("blocks.")}))


@door
def longest_gap(saved: Sequence[int], blocks: int) -> int:
    """The most blocks in a row without a saved tensor: what the backward runs again at once.

    >>> from compile_lab.checkpointing import longest_gap
    >>> longest_gap([1, 5], blocks=8)
    3
    """
    check_whole("blocks", blocks, 1)
    for block in saved:
        check_whole("a block of saved", block, 0, blocks - 1)
    edges = [-1, *saved, blocks]
    return max(later - earlier - 1 for earlier, later in itertools.pairwise(edges))


class _Planner(Backend):
    """Splits a joint graph once for each budget, and keeps the inputs that the graphs are called with."""

    def __init__(self, budgets: tuple[float, ...]) -> None:
        super().__init__("min_cut", "inductor", None)
        self.budgets = budgets
        self.parts: list[tuple[GraphModule, GraphModule]] = []
        self.inputs: list[Any] = []

    def split(
        self, captured: GraphModule, as_inductor: bool, joint: GraphModule, inputs: Any, **options: Any
    ) -> tuple[GraphModule, GraphModule]:
        if as_inductor:
            aot_pieces().joint_graph_passes(joint)
        for budget in self.budgets:
            self.memory_budget = budget
            self.parts.append(super().split(captured, False, snapshot(joint), inputs, **options))
        # AOTAutograd goes on with the last one, and calls its forward with the flat list of what it reads.
        forward, _ = self.parts[-1]
        forward.register_forward_pre_hook(lambda _, args: self.inputs.extend(args[0]))
        return self.parts[-1]


class _Step(torch.autograd.Function):
    """Two graphs as a differentiable function, which holds what AOTAutograd's own holds, and lets go as early."""

    @staticmethod
    def forward(ctx: Any, plan: "_Graphs", *inputs: Tensor) -> Tensor:
        results = list(plan.forward(list(inputs)))
        ctx.plan, ctx.saved = plan, results[plan.outputs :]
        return results[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        args, ctx.saved = [*ctx.saved, gradient], None
        return None, *ctx.plan.backward(args)


@dataclass(frozen=True)
class _Graphs:
    forward: Callable[[list[Any]], Any]
    backward: Callable[[list[Any]], Any]
    outputs: int
    inputs: tuple[Any, ...]

    def __call__(self) -> Tensor:
        return _Step.apply(self, *self.inputs)


def _work_nodes(module: GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if is_work(node)]
