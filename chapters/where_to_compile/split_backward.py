"""A compiled backward in two functions, cut from AOTAutograd's: the input's gradient at once, the weights' when asked.

Zero-bubble schedules want this of a stage: Qi et al. 2024. A backward that is one function computes both, whatever it
is called for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from compile_lab._torch.aot import aot_pieces, functorch_config

CALL = "call_function"
PARTS = F, DI, DW = "F", "dI", "dW"
"""A stage's forward, the gradient of its input, the gradients of its weights."""


class SplitBackward:
    """A backend for torch.compile whose backward is `DI` alone. What computes `DW` waits until `weights` hands it out.

    >>> import torch
    >>> from chapters.shared.subjects import ResidualMLP
    >>> from chapters.where_to_compile.split_backward import SplitBackward
    >>> stage, backend = ResidualMLP(2), SplitBackward()
    >>> stage.compile(backend=backend)
    >>> x = torch.ones(1, 2, requires_grad=True)
    >>> stage(x).sum().backward()
    >>> x.grad is None, stage.up.weight.grad is None
    (False, True)
    >>> backend.weights()()
    >>> stage.up.weight.grad.shape
    torch.Size([8, 2])

    ``calls`` counts the calls that ran in each of `PARTS`, by operator; ``compiler`` makes a part from its graph, and
    runs it as it is unless given. Each stage has a backend of its own. Raises RuntimeError where a graph is called with
    other weights than before, as that of a block which `nn.Sequential` repeats, and ValueError for one without weights.
    """

    def __init__(self, compiler: Callable[[GraphModule], Callable[..., Any]] = lambda graph: graph) -> None:
        self.compiler = compiler
        self.calls: dict[str, Counter[str]] = {part: Counter() for part in PARTS}
        self.waiting: dict[tuple[int, ...], Callable[[], None]] = {}

    def weights(self) -> Callable[[], None]:
        """What adds the weights' gradients of the newest backward to their ``grad``: a ``PipelineStage``'s dw_builder.

        Of the same weights the newest, since a pipeline that infers shapes runs backwards for which it builds none.
        """
        newest, self.waiting = list(self.waiting.values()), {}

        def run() -> None:
            for each in newest:
                each()

        return run

    def __call__(self, module: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        trained = [isinstance(each, nn.Parameter) for each in inputs]
        if not any(trained):
            raise ValueError("a graph without parameters has no gradients to put off: compile the stage whole")
        pieces, parameters = aot_pieces(), list[nn.Parameter]()
        with functorch_config.patch(donated_buffer=False):  # dW reads what dI would give back
            return pieces.aot_autograd(
                fw_compiler=partial(self._forward, trained, parameters),
                bw_compiler=partial(self._backward, trained, parameters),
                partition_fn=pieces.min_cut_partition,
                decompositions=pieces.decompositions(),
            )(module, inputs)

    def _forward(
        self, trained: Sequence[bool], parameters: list[nn.Parameter], module: GraphModule, _: Sequence[Any]
    ) -> Callable[..., Any]:
        run = self._counted(F, module)

        def forward(arguments: list[Any]) -> Any:
            own = [each for each, is_one in zip(arguments, trained, strict=False) if is_one]
            if [*map(id, own)] != [*map(id, parameters or own)]:
                raise RuntimeError("one graph serves the weights of two blocks: compile the stage whole, as one module")
            parameters[:] = own
            return run(*arguments)

        return _boxed(forward)

    def _backward(
        self, trained: Sequence[bool], parameters: Sequence[nn.Parameter], module: GraphModule, _: Sequence[Any]
    ) -> Callable[..., Any]:
        at_once, later, gradients = cut(module, trained)
        dI, dW = self._counted(DI, at_once), self._counted(DW, later)

        def backward(arguments: list[Any]) -> list[Tensor | None]:
            out = dI(*arguments)
            kept = out[len(gradients) :]
            self.waiting[*map(id, parameters)] = lambda: _add(parameters, dW(*kept))
            made: list[Tensor | None] = [None] * len(trained)
            for place, gradient in zip(gradients, out, strict=False):
                made[place] = gradient
            return made

        return _boxed(backward)

    def _counted(self, part: str, module: GraphModule) -> Callable[..., Any]:
        run, targets = self.compiler(module), [str(node.target) for node in module.graph.nodes if node.op == CALL]

        def counted(*arguments: Any) -> Any:
            self.calls[part].update(targets)
            return run(*arguments)

        return counted


def cut(backward: GraphModule, trained: Sequence[bool]) -> tuple[GraphModule, GraphModule, list[int]]:
    """A backward's dI and dW, and at which places of its outputs the gradients stand that dI returns first.

    ``trained``: which of the forward's inputs are weights, in the order of the backward's outputs. What dI returns
    after its gradients are the arguments of dW: what dW needs of the backward's inputs and of what dI has computed.
    """
    outputs = list(backward.graph.output_node().args[0])  # type: ignore[arg-type]
    places = [at for at, (out, later) in enumerate(zip(outputs, trained, strict=True)) if out is not None and not later]
    put_off = [out for out, later in zip(outputs, trained, strict=True) if later]
    later = {node for node in _above(put_off) - _above(outputs[at] for at in places) if node.op == CALL}
    read = {each for node in later for each in node.all_input_nodes} | set(put_off)
    kept = [node for node in backward.graph.nodes if node in read - later]
    inputs = backward.graph.find_nodes(op="placeholder")
    return part(backward, inputs, [*(outputs[at] for at in places), *kept]), part(backward, kept, put_off), places


def part(module: GraphModule, inputs: Sequence[Node], outputs: Sequence[Node]) -> GraphModule:
    """What computes these nodes of the module from those."""
    graph, needed = Graph(), _above(outputs, inputs)
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in module.graph.nodes:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in outputs))
    return GraphModule(module, graph)


def _above(nodes: Iterable[Node], ends: Sequence[Node] = ()) -> set[Node]:
    """These nodes and all that they are computed from, as far as the ``ends``."""
    found, todo = set[Node](), list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += () if node in ends else node.all_input_nodes
    return found


def _add(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd hands over a list
    return run
