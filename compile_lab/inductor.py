"""Which kernels did Inductor write, from which lines? ``generated_code(fn, *args)`` answers, forward and backward.

Inductor receives a graph (post-grad: functional, decomposed), lowers each node to a loop nest or to a call of a
library, fuses what it can, and writes one kernel for each group that is left. ``collecting`` listens to that in this
process and needs no kernel to be built or run, so the same records come from a GPU, a CPU, and a chip that is not
there (``compile_lab.virtual_gpu``). Nothing here measures time.
"""

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from compile_lab._torch import dispatch_mode_is_active, inductor_config, inductor_lowering, reset_dynamo
from compile_lab.capture import BreakReported, compilation
from compile_lab.dynamo import GraphBreak, merged_breaks
from compile_lab.places import Line, stack
from compile_lab.recordings import Provenance, here

EXTERN = "extern"
"""The language of a kernel that Inductor did not write: a call of cuBLAS, cuDNN, MKL or torch's own."""


@dataclass(frozen=True)
class Origin:
    """A node of the post-grad graph, and the user's lines that asked for it, outermost first.

    A backward node has the lines of the forward operation that it differentiates.
    """

    node: str
    op: str
    stack: tuple[Line, ...] = ()

    @property
    def line(self) -> Line | None:
        """The innermost of the user's lines; None for a node that torch added on its own account."""
        return self.stack[-1] if self.stack else None

    def __str__(self) -> str:
        return f"{self.node} = {self.op}" + (f"  # {self.line}: {self.line.text}" if self.line else "")


@dataclass(frozen=True)
class Kernel:
    """One launch: the code that runs, and the nodes and lines that it computes.

    ``language`` is "triton", "cpp" or "extern" (a library's); of an extern kernel the source is its call.
    ``nbytes`` is what Inductor expects it to read and write in main memory, each buffer once. A kernel that is
    launched twice is listed twice, with the same name and source.
    """

    name: str
    source: str = field(repr=False)
    language: str
    direction: str
    origins: tuple[Origin, ...] = field(repr=False)
    nbytes: int
    call: str = field(default="", repr=False)
    """The line of the wrapper that launches it."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The user's lines behind it, without repetition, in the order of the nodes."""
        return tuple(dict.fromkeys(origin.line for origin in self.origins if origin.line))

    @property
    def body(self) -> str:
        """The source without its header: imports, launch hints, sizes recorded for Triton's autotuner."""
        at = self.source.find("@triton.jit")
        if at < 0:
            at = self.source.find('extern "C"')
        return self.source[max(at, 0) :].strip()

    def __str__(self) -> str:
        return f"{self.direction} {self.language} {self.name}: {len(self.origins)} nodes, {self.nbytes:,} bytes"


@dataclass(frozen=True)
class Group:
    """One entry of Inductor's schedule: before fusion one loop nest or call, after fusion what becomes one kernel.

    ``kind``: pointwise, reduction, template (a matmul that Inductor writes itself), extern, or nop (no code).
    ``space`` is what it loops over, as (elements, reduced elements); empty for a call. ``reads`` and ``writes`` name
    buffers; ``nbytes`` counts each of them once, and leaves out what never leaves the group.
    """

    name: str
    kind: str
    parts: tuple[str, ...]
    nodes: tuple[str, ...]
    space: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True)
class Refusal:
    """Two groups that Inductor thought of fusing and did not, and its reason."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True)
class InductorGraph:
    """One graph that Inductor lowered: ``direction`` is inference, forward or backward.

    ``nodes`` are the calls of the post-grad graph, in order; ``before`` and ``after`` the schedule around fusion.
    """

    direction: str
    nodes: tuple[Origin, ...] = field(repr=False)
    kernels: tuple[Kernel, ...]
    before: tuple[Group, ...] = field(repr=False)
    after: tuple[Group, ...] = field(repr=False)
    refusals: tuple[Refusal, ...] = field(repr=False)
    wrapper: str = field(repr=False)
    code: str = field(repr=False)
    """The post-grad graph as readable Python."""

    @property
    def unfused_bytes(self) -> int:
        """Bytes that the groups would read and write if each were a kernel of its own."""
        return sum(group.nbytes for group in self.before)

    @property
    def fused_bytes(self) -> int:
        """Bytes that the groups read and write after fusion."""
        return sum(group.nbytes for group in self.after)


@dataclass(frozen=True)
class GeneratedCode:
    """Everything Inductor wrote for a function and its inputs. ``chip`` is None for the device of the inputs."""

    graphs: tuple[InductorGraph, ...]
    chip: str | None
    provenance: Provenance
    breaks: tuple[GraphBreak, ...] = ()
    trouble: tuple[str, ...] = ()
    """What went wrong after the first graph was lowered: the kernels are then those of a part of the function."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All launches, graph after graph, in the order in which each wrapper makes them."""
        return tuple(kernel for graph in self.graphs for kernel in graph.kernels)

    @property
    def written(self) -> tuple[Kernel, ...]:
        """The kernels that Inductor wrote, each source once."""
        return tuple({kernel.source: kernel for kernel in self.kernels if kernel.language != EXTERN}.values())

    @property
    def wrapper(self) -> str:
        """The Python that allocates buffers and launches the kernels, all graphs one after the other."""
        return "\n\n".join(graph.wrapper for graph in self.graphs)

    def __str__(self) -> str:
        head = f"{len(self.graphs)} graphs, {len(self.kernels)} kernels ({self.provenance})"
        lines = [head, *map(str, self.kernels), *map(str, self.breaks), *(f"trouble: {said}" for said in self.trouble)]
        return "\n".join(lines)


def generated_code(
    fn: Callable[..., Any],
    *args: Any,
    chip: str | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> GeneratedCode:
    """The kernels that Inductor writes for ``fn(*args, **kwargs)``, tied to graph nodes and source lines.

    ``fn`` is any function or module; ``options`` go to ``torch.compile``. Without ``chip`` the code is compiled and
    run where the inputs are: C++ for a CPU, Triton for a GPU. With ``chip`` ("H200", "H100", "A100", "T4") it is
    generated for that chip in a child process, and never run.

    The backward pass is generated too if anything in the result requires grad: all its floating-point tensors that
    do are summed into one scalar, and that is differentiated with respect to every leaf it came from. No ``.grad``
    is touched. Under ``torch.no_grad()`` there is inference code only.

    Raises TypeError if ``fn`` cannot be called or an option is not Inductor's, RuntimeError if graphs were lowered
    but a dispatch mode kept them from running, and whatever ``fn`` or the compiler raises before the first graph is
    lowered; what is raised later is listed in ``trouble``.
    """
    if not callable(fn):
        raise TypeError(f"generated_code needs a function or a module to call, not {type(fn).__name__}: {fn!r:.60}")
    _check_options(options)
    grad = torch.is_grad_enabled()
    command = "compile_lab.inductor.generated_code"
    if chip is None:
        graphs, breaks, trouble = _generate(fn, args, kwargs, options, grad, runs=True)
        provenance = here(command, device=_device_of(fn, args, kwargs))
    else:
        from compile_lab import virtual_gpu  # starts a child process; most callers need none

        graphs, breaks, trouble = virtual_gpu.run(chip, _generate, fn, args, kwargs, options, grad)
        graphs = tuple(_with_texts(graph) for graph in graphs)
        provenance = replace(here(command, device="cpu"), device=f"NVIDIA {chip}", kind="virtual")
    return GeneratedCode(graphs, chip, provenance, breaks, trouble)


def _generate(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: dict[str, Any] | None,
    grad: bool,
    runs: bool = False,
) -> tuple[tuple[InductorGraph, ...], tuple[GraphBreak, ...], tuple[str, ...]]:
    """Compile forward and backward; `runs` says that the kernels are built, and so must have been entered."""
    trouble: list[str] = []
    reset_dynamo()
    try:
        with compilation(use_caches=True) as log, collecting() as graphs, torch.set_grad_enabled(grad):
            compiled = torch.compile(fn, options={"fx_graph_cache": False, **(options or {})})
            try:
                _differentiate(compiled(*args, **kwargs))
            except Exception as error:
                if not graphs:
                    raise
                trouble.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
    finally:
        reset_dynamo()
    if runs and (graphs or dispatch_mode_is_active()) and not trouble:
        log.require_compiled()
    return tuple(graphs), merged_breaks(log.of(BreakReported)), tuple(trouble)


def _differentiate(result: Any) -> None:
    """Run the backward of a result, for its own sake: into no ``.grad``."""
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    outputs = [tensor for tensor in tensors if tensor.requires_grad and tensor.is_floating_point()]
    leaves = list(_leaves([output.grad_fn for output in outputs]))
    if leaves:
        torch.autograd.grad(sum(output.sum() for output in outputs), leaves, allow_unused=True)


def _leaves(pending: list[Any]) -> Iterator[torch.Tensor]:
    """The tensors that gradients would be accumulated into."""
    seen = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        pending.extend(following for following, _ in node.next_functions)


def _check_options(options: dict[str, Any] | None) -> None:
    known = inductor_config.get_config_copy()
    if unknown := [name for name in options or {} if name.replace("-", "_") not in known]:
        raise TypeError(f"{unknown[0]!r} is no option of Inductor; torch._inductor.list_options() lists them")


def _device_of(*inputs: Any) -> str | None:
    """ "cpu" if no tensor among the inputs is on a GPU."""
    tensors = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    modules = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.nn.Module)]
    tensors += [parameter for module in modules for parameter in module.parameters()]
    return None if any(tensor.is_cuda for tensor in tensors) else "cpu"


def _with_texts(graph: InductorGraph) -> InductorGraph:
    """The same graph with the text of lines that another process could not read, as those of a notebook's cell."""

    def complete(origin: Origin) -> Origin:
        return replace(origin, stack=tuple(line.with_text() for line in origin.stack))

    nodes = {origin.node: complete(origin) for origin in graph.nodes}
    kernels = [replace(k, origins=tuple(nodes[origin.node] for origin in k.origins)) for k in graph.kernels]
    return replace(graph, nodes=tuple(nodes.values()), kernels=tuple(kernels))


@contextlib.contextmanager
def collecting() -> Iterator[list[InductorGraph]]:
    """Keep a record of every graph that Inductor lowers in this process while the block runs, in order.

    Nothing else changes: what torch does with the code afterwards, build and run it or neither, is not looked at.
    Inductor's graph cache is passed over, since a graph that comes from it is not lowered.
    """
    graphs: list[InductorGraph] = []
    codegen = inductor_lowering().GraphLowering.codegen

    def collected(lowering: Any) -> Any:
        with _watching(lowering) as watch:
            result = codegen(lowering)
        graphs.append(watch.graph(result[0].value))
        return result

    with (
        inductor_config.patch(fx_graph_cache=False),
        mock.patch.object(inductor_lowering().GraphLowering, "codegen", collected),
    ):
        yield graphs


@dataclass
class _Watch:
    """What is seen of one graph while it is lowered."""

    lowering: Any
    before: list[Group] = field(default_factory=list)
    after: list[Group] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    launches: list[tuple[str, int | None, list[str], int]] = field(default_factory=list)
    """Of each kernel: its name, torch's number for the launch, the nodes, the bytes."""

    def __post_init__(self) -> None:
        nodes = self.lowering.orig_gm.graph.nodes
        self.origins = {node.name: _origin(node) for node in nodes if node.op == "call_function"}
        self.code = self.lowering.orig_gm.print_readable(print_output=False)
        self.scheduled: list[Any] = []
        self.counted: set[str] = set()

    def fusion(self, nodes: list[Any], groups: list[Group]) -> list[Any]:
        groups.extend(_group(node, self.origins) for node in nodes)
        self.scheduled = nodes
        return nodes

    def launch(self, scheduled: Any, name: str, number: int | None) -> None:
        if isinstance(scheduled, Sequence):  # markers between loops have no node of their own
            parts = [part.get_name() for part in scheduled if getattr(part, "node", None) is not None]
            irs = [part.node for part in scheduled if getattr(part, "node", None) is not None]
        else:
            parts, irs = [scheduled.get_operation_name()], [scheduled]
        exact = getattr(irs[0], "origin_node", None) if len(irs) == 1 else None
        found = {exact.name} if exact is not None else {origin.name for ir in irs for origin in ir.origins}
        self.launches.append((name, number, [n for n in self.origins if n in found], self._nbytes(parts)))

    def _nbytes(self, parts: list[str]) -> int:
        """The bytes of the groups that these parts belong to; a group that was split counts with its first kernel."""
        total = 0
        for group in self.scheduled:
            members = {part.get_name() for part in group.get_nodes()}
            if members & set(parts) and group.get_name() not in self.counted:
                self.counted.add(group.get_name())
                total += int(group.get_read_write_buffers_sizes())
        return total

    def graph(self, wrapper: str) -> InductorGraph:
        lowering = self.lowering
        direction = "backward" if lowering.is_backward else "inference" if lowering.is_inference else "forward"
        sources, calls = definitions(wrapper), numbered_calls(wrapper)
        kernels = []
        for name, number, nodes, nbytes in self.launches:
            call = calls.get(f"{name}:{number}", "")
            language, source = sources.get(name, (EXTERN, call))
            origins = tuple(self.origins[node] for node in nodes)
            kernels.append(Kernel(name, source, language, direction, origins, nbytes, call))
        nodes = tuple(self.origins.values())
        parts = tuple(kernels), tuple(self.before), tuple(self.after), tuple(dict.fromkeys(self.refusals))
        return InductorGraph(direction, nodes, *parts, wrapper, self.code)


@contextlib.contextmanager
def _watching(lowering: Any) -> Iterator[_Watch]:
    parts, watch = inductor_lowering(), _Watch(lowering)
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
        for module in parts.provenance_callers:
            name = "set_kernel_post_grad_provenance_tracing"
            entered.enter_context(mock.patch.object(module, name, launched))
        yield watch


def _origin(node: torch.fx.Node) -> Origin:
    lines = stack(node.meta.get("stack_trace") or "")
    return Origin(node.name, str(node.target), tuple(line for line in lines if line.is_users))


def _group(scheduled: Any, origins: dict[str, Origin]) -> Group:
    parts = scheduled.get_nodes()
    found = {o.name for part in parts if part.node is not None for o in part.node.get_origins()}
    space = () if scheduled.is_extern() else tuple(str(extent) for extent in scheduled.group[1])
    read_writes = scheduled.read_writes
    return Group(
        scheduled.get_name(),
        _kind(scheduled),
        tuple(part.get_name() for part in parts),
        tuple(name for name in origins if name in found),
        space,
        tuple(sorted({dep.name for dep in read_writes.reads})),
        tuple(sorted({dep.name for dep in read_writes.writes})),
        int(scheduled.get_read_write_buffers_sizes()),
    )


def _kind(scheduled: Any) -> str:
    if isinstance(scheduled, inductor_lowering().NopKernelSchedulerNode):
        return "nop"
    if scheduled.is_extern():
        # The parts of a call's tuple are nodes of their own, without code.
        return "nop" if type(scheduled.node).__name__ == "MultiOutput" else EXTERN
    if scheduled.is_template():
        return "template"
    return "reduction" if scheduled.is_reduction() else "pointwise"


def definitions(wrapper: str) -> dict[str, tuple[str, str]]:
    """The kernels that a wrapper defines: name to (language, source)."""
    found = {}
    for statement in ast.parse(wrapper).body:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("async_compile."):
            continue
        texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        kind = ast.unparse(call.func).removeprefix("async_compile.")
        if texts:
            found[ast.unparse(statement.targets[0])] = ("cpp" if kind.startswith("cpp") else kind, max(texts, key=len))
    return found


def numbered_calls(wrapper: str) -> dict[str, str]:
    """The launches of a wrapper, by the number that torch writes above each: ``name:number`` to the line of code."""
    found = re.finditer(r"^ *# \[Provenance debug handles\] (\S+)\n((?: *#.*\n)*) *(.+)$", wrapper, re.MULTILINE)
    return {match[1]: match[3] for match in found}
