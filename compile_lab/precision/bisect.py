"""Which operator makes compiled code leave eager's way first? A search over the cuts of the captured graph.

python -m compile_lab.precision.bisect FILE:FUNCTION

FILE defines FUNCTION (or a module of that name) and ``inputs()``, which returns the tuple of its arguments. The graph
is run in eager, node by node, in its own precision and in float64. Then its beginning, up to some node, is compiled and
run; half of the rest follows, until there are two neighbours of which the first is as in eager and the second is not.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from .._torch.dynamo import NotOneGraphError, compiled_anew, reset_dynamo
from ..doors import check_amount, door, is_source
from ..measure.judge import relative_error
from ..source import Line, stack

SHORTER = {"float": "double", "half": "double", "bfloat16": "double"}
"""Methods that would cut the reference's precision, and what takes their place."""


class BisectError(ValueError):
    """What cannot be searched: names the input, the rule and the way out."""


@dataclass(frozen=True)
class NodeError:
    """One operation of the captured graph, in order, and the errors of its result against float64.

    ``growth`` is the error of its result in eager by the largest of those that it read. ``compiled`` is None where the
    search did not stop. ``apart``: ‖compiled − eager‖ / ‖exact‖ there.
    """

    node: str
    operator: str
    line: Line | None
    eager: float
    growth: float
    compiled: float | None = None
    apart: float | None = None


@dataclass(frozen=True)
class Divergence:
    """What the search found: ``first`` is the operation whose compiled result differs while the one before does not.

    None where all that is compiled is as in eager. ``tried`` names the nodes up to which the graph was compiled.
    """

    first: NodeError | None
    nodes: tuple[NodeError, ...]
    tried: tuple[str, ...]
    tolerance: float

    @property
    def steepest(self) -> NodeError:
        """The operation of eager that makes an error grow most."""
        return max(self.nodes, key=lambda node: node.growth)

    def __str__(self) -> str:
        told = [f"{len(self.nodes)} operations, compiled up to {len(self.tried)} of them"]
        if self.first is None:
            told.append(f"no result of compiled code is further than {self.tolerance:g} from eager's")
        else:
            first = self.first
            told += [
                f"first to differ: {first.operator} ({first.node}), {_where(first)}",
                f"  error against float64: eager {first.eager:.2e}, compiled {first.compiled:.2e}; "
                f"{'compiled' if (first.compiled or 0) < first.eager else 'eager'} is closer",
            ]
        grown = self.steepest
        told.append(f"error grows most in eager: {grown.operator}, {grown.growth:.1f} times, {_where(grown)}")
        return "\n".join(told)


def _where(node: NodeError) -> str:
    return f"{node.line}: {node.line.text}" if node.line else "on no line of yours"


@door
def first_divergence(
    fn: Callable[..., Any],
    *args: Any,
    tolerance: float = 0.0,
    options: Mapping[str, Any] | None = None,
) -> Divergence:
    """Search the forward of ``fn(*args)`` for the first operation whose compiled result is not eager's.

    ``tolerance``: results differ when ‖compiled − eager‖ / ‖exact‖ is larger; 0 asks for the same bits. ``options`` are
    torch.compile's. Random numbers are eager's, from one seed. The truth is the graph in float64, from the same inputs.
    Compiles about log₂ n beginnings of a graph of n operations. Beginnings are compiled alone, so what fuses only with
    what comes later is not seen. Raises BisectError where there is no whole graph, or nothing floating in it.

    >>> import torch
    >>> from compile_lab.precision.bisect import first_divergence
    >>> first_divergence(torch.argmax, torch.ones(4))
    Traceback (most recent call last):
        ...
    compile_lab.precision.bisect.BisectError: the captured graph has no operation with a floating result,
    so there is nothing to judge
    """
    check_amount("tolerance", tolerance)
    module, inputs = _captured(fn, args)
    eager, exact = _Values(module, truth=False).of(inputs), _Values(module, truth=True).of(inputs)
    judged = _profile(module, eager, exact)
    if not judged:
        raise BisectError("the captured graph has no operation with a floating result, so there is nothing to judge")
    given = {"fallback_random": True, **(options or {})}
    found: dict[int, NodeError] = {}

    def differs(at: int) -> bool:
        node = judged[at]
        y = _compiled_until(module, node.node, inputs, given)
        apart = float((y.double() - eager[node.node].double()).norm() / _size(exact[node.node]))
        errors = {"compiled": _error(y, exact[node.node]), "apart": apart}
        found[at] = NodeError(**{**vars(node), **errors})
        return not apart <= tolerance

    try:
        first = _searched(len(judged), differs)
    finally:
        reset_dynamo()
    nodes = tuple(found.get(at, node) for at, node in enumerate(judged))
    tried = tuple(judged[at].node for at in sorted(found))
    return Divergence(None if first is None else nodes[first], nodes, tried, tolerance)


def _searched(count: int, differs: Callable[[int], bool]) -> int | None:
    """The number of a place that differs while the place before, if there is one, does not; None if the last agrees."""
    if not differs(count - 1):
        return None
    same, other = -1, count - 1
    while other - same > 1:
        middle = (same + other) // 2
        same, other = (same, middle) if differs(middle) else (middle, other)
    return other


def _captured(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[fx.GraphModule, list[Any]]:
    kept: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(module: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            kept.append((module, [_detached(value) for value in inputs]))
            return module(*inputs)

        return run

    try:
        with compiled_anew(), torch.no_grad():
            torch.compile(fn, backend=backend, fullgraph=True, dynamic=False)(*args)
    except NotOneGraphError as reason:
        said = str(reason).strip().partition("\n")[0]
        raise BisectError(f"{_name(fn)} is not one graph ({said}): cut it to a part that is") from reason
    if not kept:
        raise BisectError(
            f"{_name(fn)} calls nothing of torch on a tensor, so there is no graph: give it one that does"
        )
    return kept[0]


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


class _Values(fx.Interpreter):
    """Runs a graph and keeps what each node gave, by its name; for the truth in float64, whatever a line casts to."""

    def __init__(self, module: fx.GraphModule, truth: bool) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.truth = truth
        self.kept: dict[str, Tensor] = {}

    def of(self, inputs: Sequence[Any]) -> dict[str, Tensor]:
        torch.manual_seed(0)
        with torch.no_grad():
            self.run(*(self._given(_detached(value)) for value in inputs))
        return self.kept

    def run_node(self, n: fx.Node) -> Any:
        value = self._given(super().run_node(n)) if n.op == "get_attr" else super().run_node(n)
        if isinstance(value, Tensor) and value.is_floating_point():
            self.kept[n.name] = value.detach().clone()
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(target, self._wide(args), self._wide(kwargs))

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        target = SHORTER.get(target, target) if self.truth else target
        return super().call_method(target, self._wide(args), self._wide(kwargs))

    def _wide(self, value: Any) -> Any:
        return tree_map(
            lambda leaf: torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf, value
        ) if self.truth else value  # fmt: skip

    def _given(self, value: Any) -> Any:
        doubled = self.truth and isinstance(value, Tensor) and value.is_floating_point()
        return value.double() if doubled else value


def _profile(module: fx.GraphModule, eager: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> list[NodeError]:
    errors = {name: _error(value, exact[name]) for name, value in eager.items() if value.shape == exact[name].shape}
    nodes = []
    for node in module.graph.nodes:
        if node.op not in ("call_function", "call_method") or node.name not in errors:
            continue
        least = torch.finfo(eager[node.name].dtype).eps / 4  # about what one rounding costs
        read = max([errors.get(each.name, 0.0) for each in node.all_input_nodes], default=0.0)
        growth = errors[node.name] / max(read, least)
        operator = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        nodes.append(NodeError(node.name, operator, _line(node), errors[node.name], growth))
    return nodes


def _error(value: Tensor, exact: Tensor) -> float:
    return relative_error(value, exact) if float(exact.norm()) else float(value.double().norm())


def _size(exact: Tensor) -> float:
    return float(exact.norm()) or 1.0


def _line(node: fx.Node) -> Line | None:
    lines = [line for line in stack(node.meta.get("stack_trace") or "") if line.is_users]
    return lines[-1] if lines else None


def _compiled_until(module: fx.GraphModule, name: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
    graph = fx.Graph()
    new: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            new[node] = graph.node_copy(node, new.__getitem__)
        if node.name == name:
            last = new[node]
    for node in reversed(graph.nodes):  # what comes after the cut, and is not an input
        if node is last:
            break
        if node.op != "placeholder":
            graph.erase_node(node)
    graph.output(last)
    beginning = fx.GraphModule(module, graph)
    reset_dynamo()
    torch.manual_seed(0)
    with torch.no_grad():
        return torch.compile(beginning, options=dict(options), dynamic=False)(*map(_detached, inputs))


def named(target: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function and the arguments that ``FILE:FUNCTION`` asks for. BisectError says what is wrong with it."""
    file, colon, name = target.rpartition(":")
    if not (colon and file and name.isidentifier()):
        raise BisectError(f"{target!r} is not FILE:FUNCTION: write for example model.py:forward")
    path = Path(file)
    if not is_source(path):
        raise BisectError(f"{file}: there is no such file, or none of source; give the path of a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BisectError(f"{file}: not a Python file; give one whose name ends in .py")
    loaded = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
    except (Exception, SystemExit) as reason:  # whatever the reader's file raises
        raise BisectError(f"{file}: importing it fails ({type(reason).__name__}: {reason}); fix that first") from reason
    there = [each for each, value in vars(loaded).items() if callable(value) and not each.startswith("_")]
    if name not in there:
        raise BisectError(f"{file} has no function {name!r}; there is {', '.join(there) or 'none'}")
    if "inputs" not in there:
        raise BisectError(f"{file} has no inputs(): define it to return the tuple of arguments for {name}")
    try:
        args = loaded.inputs()
    except (Exception, SystemExit) as reason:
        raise BisectError(f"inputs() of {file} fails ({type(reason).__name__}: {reason}); fix that first") from reason
    if not isinstance(args, tuple):
        raise BisectError(f"inputs() of {file} returned a {type(args).__name__}; it must return a tuple of arguments")
    return getattr(loaded, name), args


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compile_lab.precision.bisect", description=__doc__.split("\n")[0])
    parser.add_argument("target", metavar="FILE:FUNCTION")
    parser.add_argument("--tolerance", type=float, default=0.0, help="how far apart counts as the same (default: 0)")
    options = parser.parse_args(arguments)
    try:
        fn, args = named(options.target)
        print(first_divergence(fn, *args, tolerance=options.tolerance))
    except ValueError as refused:
        print(refused, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
