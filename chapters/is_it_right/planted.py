"""Faults that we plant ourselves: passes over Inductor's joint graph, each of which spoils one gradient in its way.

``with planted("scaled by 1.001"):`` has every compilation within run it. The model computes what it should, in forward
and in eager mode; only what the compiled backward returns for one parameter is another thing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.fx import Graph, Node
from torch.fx.node import Argument

from compile_lab._torch.dynamo import compiled_anew
from compile_lab._torch.inductor import inductor_config
from compile_lab.doors import door

aten = torch.ops.aten
Change = Callable[[Graph, Node], Node]


def _call(operator: Callable, *rest: Argument) -> Change:
    return lambda graph, gradient: graph.call_function(operator, (gradient, *rest))


def _mixed(graph: Graph, gradient: Node) -> Node:
    transposed = graph.call_function(aten.permute.default, (gradient, [1, 0]))
    return graph.call_function(aten.add.Tensor, (gradient, transposed))


def _through_bf16(graph: Graph, gradient: Node) -> Node:
    short = graph.call_function(torch.ops.prims.convert_element_type.default, (gradient, torch.bfloat16))
    return graph.call_function(torch.ops.prims.convert_element_type.default, (short, torch.float32))


def _first_row_only(graph: Graph, gradient: Node) -> Node:
    row = graph.call_function(aten.slice.Tensor, (gradient, 0, 0, 1))
    return graph.call_function(aten.expand.default, (row, list(gradient.meta["val"].shape)))


def _rows_moved_up(graph: Graph, gradient: Node) -> Node:
    rows = gradient.meta["val"].shape[0]
    first, rest = (graph.call_function(aten.slice.Tensor, (gradient, 0, *ends)) for ends in ((0, 1), (1, rows)))
    return graph.call_function(aten.cat.default, ([rest, first],))


def _last_row_lost(graph: Graph, gradient: Node) -> Node:
    rows = gradient.meta["val"].shape[0]
    kept = graph.call_function(aten.slice.Tensor, (gradient, 0, 0, rows - 1))
    return graph.call_function(aten.constant_pad_nd.default, (kept, [0, 0, 0, 1]))


CHANGES: dict[str, Change] = {
    "dropped": _call(aten.mul.Tensor, 0.0),
    "scaled by 1.001": _call(aten.mul.Tensor, 1.001),
    "scaled by 2": _call(aten.mul.Tensor, 2.0),
    "its sign turned": _call(aten.neg.default),
    "shifted by 0.0001": _call(aten.add.Tensor, 1e-4),
    "its rows moved up by one": _rows_moved_up,
    "mixed with its transpose": _mixed,
    "only its first row": _first_row_only,
    "its last row lost": _last_row_lost,
    "clamped at 0": _call(aten.relu.default),
    "transposed": _call(aten.permute.default, [1, 0]),
}
"""What becomes of one square gradient, by name."""
SWAPPED = "swapped with another's"
PLANTED = (*CHANGES, SWAPPED)
ROUNDED = "rounded to bf16 and back"
"""Changes nothing, unless Inductor is set to emulate casts: it keeps numbers in fp32 registers."""


@door
@contextmanager
def planted(name: str) -> Iterator[None]:
    """Every joint graph that Inductor compiles within has one gradient spoiled: the last square one; or, "swapped", the
    last two of one shape. ValueError for a name that is none of `PLANTED` and not `ROUNDED`,
    and for a graph without such a gradient.

    >>> from chapters.is_it_right.planted import planted
    >>> from compile_lab.judge import gradients
    >>> import torch
    >>> with planted("dropped"):
    ...     found = gradients(torch.nn.Linear(8, 8), torch.ones(2, 8))
    >>> found.wrong
    ('gradient of weight', 'gradient of weight (second call)')
    """
    if name not in (*PLANTED, ROUNDED):
        raise ValueError(f"name is {name!r}; it is one of {', '.join((*PLANTED, ROUNDED))}")

    def spoil(graph: Graph) -> None:
        output = next(node for node in graph.nodes if node.op == "output")
        results = list(output.args[0])
        square = [at for at, node in enumerate(results) if _is_square(node)]
        if len(square) < (2 if name == SWAPPED else 1):
            raise ValueError("this joint graph has no square gradient to spoil: give a model with square weights")
        if name == SWAPPED:
            one, other = square[-2:]
            results[one], results[other] = results[other], results[one]
        else:
            with graph.inserting_before(output):
                change = _through_bf16 if name == ROUNDED else CHANGES[name]
                results[square[-1]] = change(graph, results[square[-1]])
        output.args = (type(output.args[0])(results),)

    # Forgotten also where the block raises: nothing that is spoiled may be called again.
    with compiled_anew(), inductor_config.patch({"joint_custom_post_pass": spoil, "fx_graph_cache": False}):
        yield


def _is_square(node: object) -> bool:
    if not isinstance(node, Node) or "val" not in node.meta:
        return False
    shape: Sequence[int] = getattr(node.meta["val"], "shape", ())
    return len(shape) == 2 and shape[0] == shape[1] > 1
