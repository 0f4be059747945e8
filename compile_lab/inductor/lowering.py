"""What does Inductor make of a graph? ``collecting`` keeps every graph that it lowers in this process.

Inductor receives a graph (post-grad: functional, decomposed), lowers each node to a loop nest or to a call of a
library, fuses what it can, and writes one kernel for each group that is left. Listening to that needs no kernel to be
built or run, so the same records come from a GPU, a CPU, and a chip that is not there.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from .._torch.inductor import inductor_config, inductor_lowering
from ..doors import door
from ..source import stack
from ..tensors import reach_nbytes
from .attribution import Variables, by_line, is_view, listening
from .mixed_reductions import announced
from .records import EXTERN, Buffer, Group, InductorGraph, Kernel, Origin, Refusal
from .wrapper import Wrapper


@door
@contextlib.contextmanager
def collecting() -> Iterator[list[InductorGraph]]:
    """Keep a record of every graph that Inductor lowers in this process while the block runs, in order.

    Nothing else changes: what torch does with the code afterwards, build and run it or neither, is not looked at.
    Inductor's graph cache is passed over, since a graph that comes from it is not lowered.

    >>> import torch
    >>> from compile_lab.inductor import collecting
    >>> with collecting() as graphs:
    ...     y = torch.compile(lambda x: x @ x)(torch.ones(4, 4))
    >>> [(graph.direction, kernel.name) for graph in graphs for kernel in graph.kernels]
    [('inference', 'extern_kernels.mm')]
    """
    graphs: list[InductorGraph] = []
    codegen = inductor_lowering().GraphLowering.codegen

    def collected(lowering: Any) -> Any:
        with _watching(lowering, variables) as watch:
            result = codegen(lowering)
        graphs.append(watch.graph(result[0].value))
        return result

    with (
        listening() as variables,  # from the start: an operation's loader is made when its node is lowered
        inductor_config.patch(fx_graph_cache=False),
        mock.patch.object(inductor_lowering().GraphLowering, "codegen", collected),
    ):
        yield graphs


@dataclass
class _Watch:
    """What is seen of one graph while it is lowered."""

    lowering: Any
    variables: Variables
    before: list[Group] = field(default_factory=list)
    after: list[Group] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    launches: list[tuple[Kernel, int | None, dict[str, str]]] = field(default_factory=list)
    """Each kernel as far as it is known before the wrapper is written, torch's number for it, its variables."""

    def __post_init__(self) -> None:
        nodes = self.lowering.orig_gm.graph.nodes
        self.origins = {node.name: _origin(node) for node in nodes if node.op == "call_function"}
        self.order = {name: at for at, name in enumerate(self.origins)}
        self.code = self.lowering.orig_gm.print_readable(print_output=False)
        self.uncounted: dict[str, Any] = {}
        """The group of each part; None once it has been counted."""

    def fusion(self, nodes: list[Any], groups: list[Group]) -> list[Any]:
        groups.extend(_group(node, self.order) for node in nodes)
        self.uncounted = {part.get_name(): node for node in nodes for part in node.get_nodes()}
        return nodes

    def launch(self, scheduled: Any, name: str, number: int | None) -> None:
        if isinstance(scheduled, Sequence):  # markers between loops have no node of their own
            scheduled = [part for part in scheduled if getattr(part, "node", None) is not None]
            parts, origins = [part.get_name() for part in scheduled], [part.node.origins for part in scheduled]
        else:
            parts, origins = [scheduled.get_operation_name()], [_called(scheduled, self.order)]
        computed = tuple(self.origins[name] for name in _in_order(origins, self.order))
        kernel = Kernel(name, "", EXTERN, self.direction, computed, self._nbytes(parts), parts=tuple(parts))
        self.launches.append((kernel, number, self.variables.take(self.order)))

    def _nbytes(self, parts: list[str]) -> int:
        """The bytes of the groups that these parts belong to; a group that was split counts with its first kernel."""
        total = 0
        for part in parts:
            if (group := self.uncounted.get(part)) is not None:
                total += int(group.get_read_write_buffers_sizes())
                self.uncounted |= dict.fromkeys(each.get_name() for each in group.get_nodes())
        return total

    @property
    def direction(self) -> str:
        return "backward" if self.lowering.is_backward else "inference" if self.lowering.is_inference else "forward"

    def graph(self, source: str) -> InductorGraph:
        wrapper = Wrapper.of(source)
        kernels = []
        for kernel, number, variables in self.launches:
            call = wrapper.line(kernel.name, number)
            language, code = wrapper.kernels.get(kernel.name, (EXTERN, call))
            kernel = replace(kernel, language=language, source=code, call=call)
            if language == "triton":
                kernel = replace(kernel, node_by_line=by_line(kernel.body, variables))
            kernels += [kernel] if number is not None else self._mixed(kernel, wrapper)
        parts = tuple(kernels), tuple(self.before), tuple(self.after), tuple(dict.fromkeys(self.refusals))
        buffers = tuple(_buffers(self.lowering))
        return InductorGraph(self.direction, tuple(self.origins.values()), *parts, source, self.code, buffers)

    def _mixed(self, kernel: Kernel, wrapper: Wrapper) -> list[Kernel]:
        """A kernel that reduces both ways, and the library calls that finish what it began."""
        sums = wrapper.sums_after(kernel.name)
        kernels = [replace(kernel, nbytes=kernel.nbytes + sum(each.nbytes for each in sums))]
        for each in sums:
            made_by = next((group for group in self.before if each.results[0] in group.writes), None)
            origins = tuple(self.origins[name] for name in made_by.nodes[-1:]) if made_by else ()
            moved = [(each.op, each.nbytes + each.out_nbytes)]
            moved += [("aten._to_copy", 2 * each.out_nbytes)] * each.cast
            kernels += [Kernel(op, each.line, EXTERN, self.direction, origins, n, each.line) for op, n in moved]
        return kernels


@contextlib.contextmanager
def _watching(lowering: Any, variables: Variables) -> Iterator[_Watch]:
    parts, watch = inductor_lowering(), _Watch(lowering, variables)
    refuse = parts.WhyNoFuse.__call__
    number_of = parts.provenance_callers[0].set_kernel_post_grad_provenance_tracing

    def refused(why: Any, reason: str, *args: Any) -> None:
        watch.refusals.append(Refusal(why.name1, why.name2, reason % args))
        refuse(why, reason, *args)

    def launched(scheduled: Any, kernel_name: str, is_extern: bool = False) -> int | None:
        number = number_of(scheduled, kernel_name, is_extern)
        watch.launch(scheduled, kernel_name, number)
        return number

    hooks = {
        # A number for each launch, written into the wrapper beside it.
        "trace.provenance_tracking_level": 1,
        "_pre_fusion_custom_pass": lambda nodes: watch.fusion(nodes, watch.before),
        "_post_fusion_custom_pass": lambda nodes: watch.fusion(nodes, watch.after),
    }
    with contextlib.ExitStack() as entered:
        entered.enter_context(inductor_config.patch(hooks))
        entered.enter_context(mock.patch.object(parts.WhyNoFuse, "__call__", refused))
        entered.enter_context(announced(lambda nodes, name: watch.launch(nodes, name, None)))
        for module in parts.provenance_callers:
            name = "set_kernel_post_grad_provenance_tracing"
            entered.enter_context(mock.patch.object(module, name, launched))
        yield watch


def _origin(node: torch.fx.Node) -> Origin:
    lines = stack(node.meta.get("stack_trace") or "")
    return Origin(node.name, str(node.target), tuple(line for line in lines if line.is_users), is_view(node))


def _group(scheduled: Any, order: Mapping[str, int]) -> Group:
    parts = scheduled.get_nodes()
    irs = [part.node for part in parts if part.node is not None]
    nodes = [_called(ir, order) if scheduled.is_extern() else ir.get_origins() for ir in irs]
    looped = getattr(scheduled, "group", None)  # calls and entries without code have none
    space = () if looped is None or scheduled.is_extern() else tuple(map(_extent, looped[1]))
    read_writes = scheduled.read_writes
    return Group(
        scheduled.get_name(),
        _kind(scheduled),
        tuple(part.get_name() for part in parts),
        tuple(_in_order(nodes, order)),
        space,
        tuple(sorted({dep.name for dep in read_writes.reads})),
        tuple(sorted({dep.name for dep in read_writes.writes})),
        int(scheduled.get_read_write_buffers_sizes()),
    )


def _buffers(lowering: Any) -> Iterator[Buffer]:
    """Those that are tensors: a tuple is none, its members are. A symbolic size counts as it was traced."""

    def known(size: Any) -> int:
        return int(size) if str(size).isdigit() else lowering.sizevars.optimization_hint(size)

    for name, ir in {**lowering.graph_inputs, **lowering.name_to_buffer}.items():
        layout = ir.maybe_get_layout() if hasattr(ir, "maybe_get_layout") else None
        if layout is not None and getattr(layout, "dtype", None) is not None:
            shape, strides = tuple(map(known, layout.size)), tuple(map(known, layout.stride))
            if len(shape) == len(strides):
                nbytes = reach_nbytes(shape, strides, layout.dtype.itemsize)
            else:  # written into a part of another buffer, whose strides these are
                nbytes = math.prod(shape) * layout.dtype.itemsize
            of = ir.inputs[0].get_name() if type(ir).__name__ == "MultiOutput" else ""
            yield Buffer(name, shape, str(layout.dtype).removeprefix("torch."), nbytes, strides, of)


def _in_order(several: Iterable[Iterable[torch.fx.Node]], order: Mapping[str, int]) -> list[str]:
    """The names of these nodes, each once, as the graph has them."""
    return sorted({node.name for nodes in several for node in nodes} & order.keys(), key=order.__getitem__)


def _called(ir: Any, order: Mapping[str, int]) -> list[torch.fx.Node]:
    """The node that a library's call computes: of all that Inductor names, its inputs' history included, the last."""
    exact = getattr(ir, "origin_node", None)
    nodes = [exact] if exact is not None else list(ir.get_origins())
    return sorted((node for node in nodes if not is_view(node)), key=lambda node: order.get(node.name, -1))[-1:]


def _extent(sizes: Any) -> int | str:
    """Elements of a loop: one number for a GPU, one for each dimension for a CPU; text where a size is a symbol."""
    count = math.prod(sizes) if isinstance(sizes, tuple | list) else sizes
    return int(count) if str(count).isdigit() else str(count)


def _kind(scheduled: Any) -> str:
    if isinstance(scheduled, inductor_lowering().NopKernelSchedulerNode):
        return "nop"
    if scheduled.is_extern():
        # The parts of a call's tuple are nodes of their own, without code.
        return "nop" if type(scheduled.node).__name__ == "MultiOutput" else EXTERN
    if scheduled.is_template():
        return "template"
    return "reduction" if scheduled.is_reduction() else "pointwise"
