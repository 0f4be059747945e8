"""What is the joint graph, what is saved for the backward, and why? ``training_graphs(fn, *args)`` answers.

AOTAutograd traces the forward and the backward of a captured graph together, before either has run, and a partitioner
splits the joint graph in two. What the forward half hands to the backward half is what the step keeps in memory. The
graphs here are run as they are, with no code generated, so none of this needs a C++ compiler or a GPU.
"""

import contextlib
import copy
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx.node import Argument

from .._torch.aot import aot_pieces
from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import compiled_anew
from ..capture import BreakReported, compilation
from ..doors import PrintedRepr, door
from ..dynamo.tracing import GraphBreak, merged_breaks
from .nodes import Decomposition, Graph, decomposed, graph_of, input_titles
from .partition import PARTITIONERS, Pipe, budgeted, partition
from .saved import Recomputed, SavedTensor, recomputed, saved_tensors

DECOMPOSITIONS = ("inductor", "none")


@dataclass(frozen=True, repr=False)
class TrainingGraphs(PrintedRepr):
    """One captured graph as AOTAutograd sees it: joint, split in two, and what is kept between the two."""

    joint: Graph
    """Forward and backward together, as the partitioner got it."""
    forward: Graph
    backward: Graph
    saved: tuple[SavedTensor, ...]
    recomputed: tuple[Recomputed, ...]
    decompositions: tuple[Decomposition, ...]
    """One for each call that Dynamo captured: the operations it became, in the forward and in the backward."""
    partitioner: str
    outputs: int
    """How many results of the forward graph are the function's own, new contents of inputs included, and come first;
    the others are saved."""
    parameters: frozenset[str]
    """The forward's inputs that are parameters or buffers: names of nodes."""
    others: tuple["TrainingGraphs", ...] = ()
    """Those of the further graphs, where the function broke into several."""
    breaks: tuple[GraphBreak, ...] = ()
    network: tuple[Pipe, ...] = field(default=(), repr=False)
    """The network that the min-cut partitioner cut, where it could choose."""

    @property
    def each(self) -> tuple["TrainingGraphs", ...]:
        """All graphs of the function, this one first."""
        return (self, *self.others)

    @property
    def saved_nbytes(self) -> int:
        """Bytes that this graph keeps for its backward, besides inputs and parameters; a buffer counts once."""
        return sum(each.extra_nbytes for each in self.saved)

    def __str__(self) -> str:
        kept = [each for each in self.saved if each.extra_nbytes]
        lines = [
            f"joint {self.joint.ops} ops → forward {self.forward.ops}, backward {self.backward.ops} "
            f"({len(self.recomputed)} of them recomputed)",
            f"saved {len(self.saved)} tensors, {self.saved_nbytes:,} bytes in {len(kept)} buffers besides inputs",
        ]
        if self.breaks:
            lines.append(f"one of {len(self.each)} graphs: the function broke at {self.breaks[0].place}")
        return "\n".join(lines)


@door
def training_graphs(
    fn: Callable[..., Any],
    *args: Any,
    partitioner: str = "min_cut",
    memory_budget: float | None = None,
    decompositions: str = "inductor",
    **kwargs: Any,
) -> TrainingGraphs:
    """The joint, forward and backward graphs of ``fn(*args, **kwargs)``, and every tensor saved between the two.

    ``fn`` is any function or module of tensors of which at least one needs a gradient. The backward is that of all
    float outputs together, one tangent for each; for a scalar loss, of the loss. It is traced, not run, so no ``.grad``
    changes; the forward runs once, with the effects it has (a batch norm's statistics move, random numbers are drawn).

    partitioner: "min_cut", which torch.compile uses, or "default", which computes nothing twice.
    memory_budget: from 0 to 1, torch's ``activation_memory_budget``; None leaves it as it is set.
    decompositions: "inductor", what torch.compile uses (its table, and its passes over the joint graph), or "none".

    A function that breaks gives several graphs: the first is returned, with the others in ``others``. Raises TypeError
    for what cannot be called, ValueError for an unknown option or if nothing needs a gradient, whatever ``fn`` itself
    raises, and RuntimeError if a dispatch mode kept the compiled code from running.

    >>> import torch
    >>> from compile_lab.aot import training_graphs
    >>> print(training_graphs(lambda x: x.tanh().relu(), torch.ones(4, requires_grad=True)))
    joint 8 ops → forward 3, backward 6 (1 of them recomputed)
    saved 2 tensors, 4 bytes in 1 buffers besides inputs
    """
    _check(fn, partitioner, decompositions, memory_budget)
    fn = getattr(fn, "_orig_mod", fn)  # of a module that is compiled already
    backend = Backend(partitioner, decompositions, memory_budget)
    with compiled_anew(), _quiet(), compilation() as log:
        torch.compile(fn, backend=backend)(*args, **kwargs)
    if backend.captured or dispatch_mode_is_active():
        log.require_compiled()
    if not backend.found:
        raise ValueError(_nothing_to_train(backend.captured))
    breaks = merged_breaks(log.of(BreakReported)) if backend.captured > 1 else ()
    first, *others = backend.found
    return replace(first, others=tuple(others), breaks=breaks)


@door
def as_graphs(
    fn: Callable[..., Any],
    partitioner: str = "min_cut",
    memory_budget: float | None = None,
    decompositions: str = "inductor",
) -> Callable[..., Any]:
    """``fn`` compiled as far as ``training_graphs`` looks: its forward and backward graphs, run node by node.

    What a partitioner does to memory shows itself so on any machine, with no code generated. Options and errors are
    those of ``training_graphs``.

    >>> import torch
    >>> from compile_lab.aot import as_graphs
    >>> x = torch.ones(2, requires_grad=True)
    >>> as_graphs(lambda x: (3 * x).sum())(x).backward()
    >>> x.grad
    tensor([3., 3.])
    """
    _check(fn, partitioner, decompositions, memory_budget)
    return torch.compile(getattr(fn, "_orig_mod", fn), backend=Backend(partitioner, decompositions, memory_budget))


def _check(fn: Any, partitioner: str, decompositions: str, memory_budget: float | None) -> None:
    for name, value, known in (
        ("partitioner", partitioner, PARTITIONERS),
        ("decompositions", decompositions, DECOMPOSITIONS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not known; it is one of {', '.join(map(repr, known))}")
    budgeted(memory_budget)  # refuses what is no share


def _nothing_to_train(captured: int) -> str:
    if not captured:
        return "Dynamo captured no graph of this function, so there is nothing to train: see compile_lab.dynamo.trace"
    why = "grad mode is off: call it outside torch.no_grad() and torch.inference_mode()"
    if torch.is_grad_enabled():
        why = "no input and no parameter that it uses has requires_grad=True: give one of them a gradient"
    return f"no graph here needs a gradient, so there is no backward and nothing is saved. {why}"


@door
class Backend:
    """A backend for torch.compile that keeps what AOTAutograd makes, and runs the graphs as they are.

    >>> import torch
    >>> from compile_lab.aot import Backend
    >>> backend = Backend("min_cut", "inductor", None)
    >>> y = torch.compile(lambda x: x.tanh().relu(), backend=backend)(torch.ones(4, requires_grad=True))
    >>> backend.captured, [(graphs.forward.ops, graphs.backward.ops) for graphs in backend.found]
    (1, [(3, 6)])
    """

    def __init__(self, partitioner: str, decompositions: str, memory_budget: float | None):
        self.partitioner, self.decompositions = partitioner, decompositions
        self.memory_budget = memory_budget
        self.captured = 0
        self.found: list[TrainingGraphs] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.captured += 1
        pieces = aot_pieces()
        # With Inductor's own table, the passes that Inductor runs over the joint graph: what torch.compile works on.
        as_inductor = self.decompositions == "inductor"
        compile_with = pieces.aot_autograd(
            fw_compiler=pieces.boxed_nop,
            bw_compiler=pieces.boxed_nop,
            partition_fn=functools.partial(self.split, module, as_inductor),
            decompositions=pieces.decompositions() if as_inductor else {},
        )
        return compile_with(module, inputs)

    def split(
        self,
        captured: torch.fx.GraphModule,
        as_inductor: bool,
        joint: torch.fx.GraphModule,
        inputs: Any,
        *,
        num_fwd_outputs: int,
        **options: Any,
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        table = decomposed(captured, joint)
        if as_inductor:
            aot_pieces().joint_graph_passes(joint)
        titles = input_titles(captured, joint)
        inputs_of = joint.graph.find_nodes(op="placeholder")
        parameters = {inputs_of[at].name for at in options.get("static_lifetime_input_indices") or ()}
        whole = snapshot(joint)
        with budgeted(self.memory_budget):
            parts = partition(joint, inputs, self.partitioner, num_fwd_outputs=num_fwd_outputs, **options)
        forward, backward, cut = parts
        outputs = returned(forward.graph)[num_fwd_outputs:]
        kept = {node.name for node in outputs if isinstance(node, torch.fx.Node)}
        again = _operations(forward) & _operations(backward)
        before, there, back = (
            graph_of(stage, module, titles, kept, again)
            for stage, module in (("joint", whole), ("forward", snapshot(forward)), ("backward", snapshot(backward)))
        )
        saved = saved_tensors(outputs, there, back, cut, parameters)
        repeated = recomputed(there, back, again)
        found = TrainingGraphs(
            before,
            there,
            back,
            saved,
            repeated,
            table,
            self.partitioner,
            num_fwd_outputs,
            frozenset(parameters),
            network=cut.network,
        )
        self.found.append(found)
        return forward, backward


def returned(graph: torch.fx.Graph) -> tuple[Argument, ...]:
    """What a graph of AOTAutograd's returns, in order: nodes, and None for what is not there."""
    (results,) = graph.output_node().args
    assert isinstance(results, tuple | list)
    return tuple(results)


def snapshot(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph as it is now, before torch changes it further; to be called with its inputs one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 copies pytrees in a way that it warns of
        graph = copy.deepcopy(module.graph)
    graph.set_codegen(torch.fx.graph.CodeGen())
    return torch.fx.GraphModule(module, graph)


def _operations(module: torch.fx.GraphModule) -> set[str]:
    return {node.name for node in module.graph.nodes if node.op == "call_function"}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch warns of or logs on the way: the result says it better."""
    logger = logging.getLogger("torch._dynamo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
