"""The whole training step as one graph: forward, loss, backward and AdamW, traced once. ``whole_step(model, *batch)``.

``torch.compile`` sees a step in pieces: a forward, a backward, an optimizer. Here the step is one function of tensors,
its gradients come from ``torch.autograd.grad`` inside of it, and ``make_fx`` writes down what it dispatches. The graph
ends by writing new contents into the parameters and moments that came in. Passes then make a graph out of a graph, and
Inductor compiles the last one. Nothing is partitioned: what the backward reads is kept until it has read it.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from compile_lab._torch.passes import compiled_graph
from compile_lab.doors import door
from compile_lab.tensors import storage_nbytes, storage_of, tensors

GraphToGraph = Callable[[fx.Graph], fx.Graph]
WRITE = torch.ops.aten.copy_.default
WRITES = 3  # of a parameter's update: itself and two moments


@dataclass(frozen=True)
class AdamWRule:
    """AdamW's numbers (Loshchilov and Hutter 2019), with torch's defaults."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2

    def scalars(self, step: int) -> tuple[float, float, float]:
        """What changes from step to step, counted from 1: the decay, minus the step size, √(1 − β₂ᵗ)."""
        first, second = (1 - beta**step for beta in self.betas)
        return 1 - self.lr * self.weight_decay, -self.lr / first, second**0.5

    def updated(
        self, parameter: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], scalars: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The new parameter and its new moments, by the operations of torch's own AdamW, in their order."""
        decay, size, root = scalars
        first = torch.lerp(moments[0], gradient, 1 - self.betas[0])
        second = torch.addcmul(moments[1] * self.betas[1], gradient, gradient, value=1 - self.betas[1])
        scale = second.sqrt() / root + self.eps
        return parameter * decay + size * first / scale, first, second


@dataclass(frozen=True)
class GraphPassed:
    """A pass that made a graph out of a graph, and the most bytes that the graph's own values hold at once."""

    name: str
    nodes: tuple[int, int]
    peak_nbytes: tuple[int, int]

    def __str__(self) -> str:
        nodes, peaks = (f"{a:,} → {b:,}" for a, b in (self.nodes, self.peak_nbytes))
        return f"{self.name}: {nodes} nodes, {peaks} bytes at the peak"


@dataclass
class WholeStep:
    """A training step that is one graph: called with a batch, it returns the loss, and the model's parameters and
    buffers, and the moments that it keeps, are new.
    """

    module: fx.GraphModule = field(repr=False)
    titles: Mapping[str, str]
    """What each input of the graph is: "head.weight", "first moment of head.weight", "batch 0", by its node's name."""
    history: tuple[GraphPassed, ...]
    rule: AdamWRule
    state: list[Tensor] = field(repr=False)
    """The inputs that stay: parameters, other parameters and buffers, first and second moments."""
    batch: tuple[tuple[torch.Size, torch.dtype], ...]
    run: Callable[..., Any] = field(repr=False)
    steps: int = 0

    @property
    def operations(self) -> int:
        """How many operations the graph has."""
        return sum(node.op == "call_function" for node in self.module.graph.nodes)

    def inputs(self, *batch: Tensor) -> list[Tensor]:
        """All inputs of the graph for the next step, as ``module`` takes them."""
        given = tuple((tensor.shape, tensor.dtype) for tensor in batch)
        if given != self.batch:
            wanted = ", ".join(f"{dtype} {list(shape)}" for shape, dtype in self.batch)
            raise ValueError(f"this step was traced for a batch of {wanted}: trace another one for other shapes")
        scalars = [torch.tensor(value) for value in self.rule.scalars(self.steps + 1)]
        return [*self.state, *scalars, *batch]

    def __call__(self, *batch: Tensor) -> Tensor:
        """One step. Raises ValueError for a batch of other shapes or dtypes."""
        inputs = self.inputs(*batch)
        with torch.no_grad():
            (loss,) = self.run(*inputs)
        self.steps += 1
        return loss


@door
def whole_step(
    model: nn.Module,
    *batch: Tensor,
    rule: AdamWRule | None = None,
    passes: Sequence[GraphToGraph] = (),
    compiled: bool = True,
) -> WholeStep:
    """The training step of a model whose ``model(*batch)`` is a scalar loss; nothing is run yet.

    ``passes`` are applied in order, each to the graph that the one before returned. With ``compiled=False`` the graph
    is run node by node, by eager's kernels. Parameters that need no gradient stay as they are.

    Raises ValueError if the result is no scalar, if no parameter needs a gradient, if the loss does not depend on one
    that does (naming it), or if a pass (naming it) returns something else than a sound graph of the same inputs.
    """
    rule = rule or AdamWRule()
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    held = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    held |= dict(model.named_buffers())
    if not trained:
        raise ValueError("no parameter of this model needs a gradient, so there is no step: train at least one")
    moments = [torch.zeros_like(p) for _ in range(2) for p in trained.values()]
    state = [*trained.values(), *held.values(), *moments]
    scalars = [torch.tensor(value) for value in rule.scalars(1)]
    with torch.enable_grad():
        module = make_fx(_step_of(model, list(trained), list(held), rule), tracing_mode="fake")(
            *state, *scalars, *batch
        )
    titles = [*trained, *held, *(f"{which} moment of {name}" for which in ("first", "second") for name in trained)]
    titles += ["decay", "minus the step size", "root of the second correction"]
    titles += [f"batch {at}" for at in range(len(batch))]
    named = {node.name: title for node, title in zip(_inputs(module.graph), titles, strict=True)}
    history = []
    for each in passes:
        module, passed = _applied(each, module)
        history.append(passed)
    run = compiled_graph(copy.deepcopy(module), [*state, *scalars, *batch]) if compiled else module
    shapes = tuple((tensor.shape, tensor.dtype) for tensor in batch)
    return WholeStep(module, named, tuple(history), rule, state, shapes, run)


def _step_of(model: nn.Module, trained: list[str], held: list[str], rule: AdamWRule) -> Callable[..., list[Tensor]]:
    """The step as a function of tensors alone: it writes into those that stay, and returns the loss."""
    n = len(trained)

    def step(*inputs: Tensor) -> list[Tensor]:
        given = iter(inputs)
        parameters = [next(given).requires_grad_() for _ in trained]
        others = [next(given) for _ in held]
        moments = [next(given) for _ in range(2 * n)]
        scalars = [next(given) for _ in range(3)]
        loss = functional_call(model, dict(zip([*trained, *held], [*parameters, *others], strict=True)), tuple(given))
        if not isinstance(loss, Tensor) or loss.ndim:
            raise ValueError("model(*batch) must be one scalar, the loss: take the mean of what it returns")
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        if missing := [name for name, gradient in zip(trained, gradients, strict=True) if gradient is None]:
            raise ValueError(f"the loss does not depend on {missing[0]}: give it requires_grad=False, or use it")
        with torch.no_grad():
            for parameter, gradient, *old in zip(parameters, gradients, moments[:n], moments[n:], strict=True):
                new = rule.updated(parameter, gradient, (old[0], old[1]), scalars)
                for kept, value in zip((parameter, *old), new, strict=True):
                    kept.copy_(value)
        return [loss.detach()]

    return step


def _inputs(graph: fx.Graph) -> list[fx.Node]:
    return list(graph.find_nodes(op="placeholder"))


def _applied(each: GraphToGraph, module: fx.GraphModule) -> tuple[fx.GraphModule, GraphPassed]:
    name = getattr(each, "__name__", type(each).__name__)
    before = module.graph
    graph = each(copy.deepcopy(before))
    if not isinstance(graph, fx.Graph):
        raise ValueError(f"{name} returned a {type(graph).__name__}; a pass takes a graph and returns one")
    try:
        graph.lint()
    except (AssertionError, RuntimeError) as reason:
        raise ValueError(f"{name} returned what is no graph: {str(reason).strip().splitlines()[0]}") from reason
    if [node.name for node in _inputs(graph)] != [node.name for node in _inputs(before)]:
        raise ValueError(f"{name} changed the inputs of the graph; they are the step's own, and stay")
    nodes = len(before.nodes), len(graph.nodes)
    return fx.GraphModule(module, graph), GraphPassed(name, nodes, (peak_nbytes(before), peak_nbytes(graph)))


def updates_at_once(graph: fx.Graph) -> fx.Graph:
    """The same graph with each gradient and update as early as it can be: once nobody reads the old value any more.

    Traced, all updates stand at the end, so that all gradients are held at once. Nothing is computed otherwise.
    """
    order = {node: at for at, node in enumerate(graph.nodes)}
    updates, readers, inputs = updates_of(graph), _readers(graph), len(_inputs(graph))
    ready: dict[fx.Node, int] = {}
    for node in graph.nodes:
        awaited = {*node.all_input_nodes}
        if node.target is WRITE:
            awaited |= readers[storage_of(node.args[0].meta["val"])] - {node}
        ready[node] = max((ready[each] for each in awaited), default=0) if node in updates else order[node]
    for node in reversed(graph.nodes):
        if node in updates and ready[node] <= inputs:  # made of what came in alone, as the decayed parameter: no sooner
            ready[node] = min((ready[user] for user in node.users), default=ready[node])
    new, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in sorted(graph.nodes, key=lambda node: (ready[node], node in updates, order[node])):
        copies[node] = new.node_copy(node, copies.__getitem__)
    return new


def updates_of(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that lead to one parameter's new contents and moments, and to nothing else."""
    reached: dict[fx.Node, set[fx.Node | None]] = {}
    for node in reversed(graph.nodes):
        own = {node} if node.target is WRITE else {None} if node.op == "output" else set()
        reached[node] = own.union(*(reached[user] for user in node.users))
    ops = (node for node in graph.nodes if node.op == "call_function")
    return {node for node in ops if None not in reached[node] and 0 < len(reached[node]) <= WRITES}


def _readers(graph: fx.Graph) -> dict[int, set[fx.Node]]:
    """The nodes that read each memory, by way of a view too, but for those that write into what came in."""
    found: dict[int, set[fx.Node]] = {}
    for node in graph.nodes:
        for value in node.all_input_nodes if node.target is not WRITE else node.all_input_nodes[1:]:
            for tensor in tensors(value.meta.get("val")):
                found.setdefault(storage_of(tensor), set()).add(node)
    return found


@door
def peak_nbytes(graph: fx.Graph) -> int:
    """The most bytes that the graph's own values hold at once, run in its order, each freed after its last reader.

    Views hold what they show; inputs, and what is written into them, are not the graph's own.
    """
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    came_in = {storage_of(t) for node in _inputs(graph) for t in tensors(node.meta.get("val"))}
    made: dict[int, int] = {}
    for at, node in enumerate(graph.nodes):
        for each in (node, *node.all_input_nodes):
            for tensor in tensors(each.meta.get("val")):
                memory = storage_of(tensor)
                if memory not in came_in:
                    made.setdefault(memory, at)
                    last[memory], sizes[memory] = at, storage_nbytes(tensor)
    change = [0] * (len(graph.nodes) + 1)
    for memory, nbytes in sizes.items():
        change[made[memory]] += nbytes
        change[last[memory] + 1] -= nbytes
    return max(accumulate(change))
