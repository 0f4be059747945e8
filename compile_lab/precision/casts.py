"""Which operation ran in which precision, and what was cast? ``dtypes(fn, *args)`` looks at every dispatched operation.

Autocast is a layer of the dispatcher above autograd. Its kernels cast arguments and hand the call on, so a mode below
both sees each cast as an operation of its own (``aten._to_copy``), in the forward and in the backward. After compiling
the casts are in graphs and kernels: ``cast_kernels`` finds the kernels that do nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .._torch.dispatcher import current_autograd_node
from ..aot.nodes import Graph
from ..doors import door
from ..eager.operators import kind_of
from ..inductor.records import EXTERN, Kernel
from ..tensors import gradients_kept, known_nbytes, memories

CASTS = ("aten._to_copy", "prims.convert_element_type")
SHORT = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class TypedOp:
    """One dispatched operation: the floating dtypes (fp32, bf16, …) that it read and wrote, without repetition.

    Of a cast, ``what`` is a parameter, a parameter's gradient, an activation or a gradient; ``name`` is the path of
    the parameter; ``reader`` the first operation that read the result.
    """

    op: str
    direction: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nbytes: int
    """Bytes of its floating results, without those whose size hangs on values."""
    kind: str = ""
    """matmul, pointwise, view, … (`compile_lab.eager.operators.KINDS`)."""
    what: str = ""
    name: str = ""
    reader: str = ""

    @property
    def is_cast(self) -> bool:
        """True for a copy in another floating dtype."""
        return bool(self.what)

    @property
    def computes(self) -> bool:
        """True for what writes floating numbers that it made: no cast, no view, no allocation."""
        return not self.is_cast and bool(self.outputs) and self.kind not in ("view", "allocation")


@dataclass(frozen=True)
class TypedTrace:
    """Every operation that touched floating numbers, in order."""

    ops: tuple[TypedOp, ...]

    @property
    def casts(self) -> tuple[TypedOp, ...]:
        return tuple(op for op in self.ops if op.is_cast)

    def cast_counts(self) -> dict[str, int]:
        """How many casts there are of each kind: of parameters, of activations, …"""
        return dict(Counter(cast.what for cast in self.casts))

    def parameter_casts(self) -> dict[str, int]:
        """How many times each parameter was cast, by its path."""
        return dict(Counter(cast.name for cast in self.casts if cast.what == "parameter"))

    def table(self) -> list[dict[str, Any]]:
        """What computes, counted: ``{"op", "direction", "inputs", "outputs", "count"}``, plain JSON values."""
        seen = Counter((op.op, op.direction, op.inputs, op.outputs) for op in self.ops if op.computes)
        return [
            {"op": op, "direction": direction, "inputs": list(inputs), "outputs": list(outputs), "count": count}
            for (op, direction, inputs, outputs), count in seen.items()
        ]


class _DtypeListener(TorchDispatchMode):
    def __init__(self, parameters: dict[int, str]) -> None:
        super().__init__()
        self.parameters = parameters
        self.ops: list[TypedOp] = []
        self.waiting: dict[int, int] = {}  # a cast's result, until it is read
        self.kept: list[Tensor] = []  # so that no later tensor gets the identity of a cast's result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        inputs, outputs = _floating((args, kwargs)), _floating(out)
        if func.namespace == "prim" or not (inputs or outputs):  # prim: questions that fake tensors ask
            return out
        op, kind = str(func.overloadpacket), kind_of(func.name())
        for tensor in inputs:
            if (cast := self.waiting.get(id(tensor))) is not None and kind != "view":
                self.ops[cast] = replace(self.ops[cast], reader=self.ops[cast].reader or op)
        node = current_autograd_node()
        direction = "forward" if node is None else "backward"
        what = name = ""
        if op in CASTS and inputs and outputs and inputs[0].dtype != outputs[0].dtype:  # not what makes integers
            what, name = self._what(inputs[0], node)
            self.waiting[id(outputs[0])] = len(self.ops)
            self.kept.append(outputs[0])
        elif kind == "view" and inputs and id(inputs[0]) in self.waiting and outputs:
            self.waiting[id(outputs[0])] = self.waiting[id(inputs[0])]
            self.kept.append(outputs[0])
        nbytes = sum(map(known_nbytes, outputs))
        self.ops.append(TypedOp(op, direction, _named(inputs), _named(outputs), nbytes, kind, what, name))
        return out

    def _what(self, given: Tensor, node: Any) -> tuple[str, str]:
        if node is None:
            name = self.parameters.get(id(given), "")
            return ("parameter" if name else "activation"), name
        # The backward of a parameter's cast hands its result to the node that accumulates it.
        following = node.next_functions[0][0] if node.next_functions else None
        name = self.parameters.get(id(getattr(following, "variable", None)), "")
        return ("parameter's gradient" if name else "gradient"), name


def _floating(value: Any) -> list[Tensor]:
    return [tensor for tensor in memories(value) if tensor.is_floating_point()]


def _named(tensors: Iterable[Tensor]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(short(tensor.dtype) for tensor in tensors))


def short(dtype: torch.dtype) -> str:
    """fp32, bf16, fp16 or fp64; torch's own word for any other dtype."""
    name = str(dtype).removeprefix("torch.")
    return SHORT.get(name, name)


@door
def dtypes(fn: Callable[..., Any], *args: Any, backward: bool = True, model: nn.Module | None = None) -> TypedTrace:
    """Call ``fn(*args)`` eagerly, and the backward of its result, and note the dtypes of every operation.

    ``fn`` enters autocast itself, if it wants to. ``model`` gives parameters their names; by default ``fn`` itself, if
    it is a module. The backward is that of the sum of all results that need a gradient; afterwards the ``.grad`` of
    parameters and arguments is what it was. Works on fake tensors too. Raises TypeError if ``fn`` cannot be called.

    >>> import torch
    >>> from compile_lab.precision.casts import dtypes
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     dtypes(torch.nn.Linear(4, 4), torch.ones(2, 4)).cast_counts()
    {'parameter': 2, 'activation': 1, "parameter's gradient": 2}
    """
    module = model or (fn if isinstance(fn, nn.Module) else nn.Module())
    parameters = dict(module.named_parameters())
    listener = _DtypeListener({id(parameter): name for name, parameter in parameters.items()})
    kept = gradients_kept([each for each in (*parameters.values(), *_floating(args)) if each.is_leaf])
    with torch.compiler.set_stance("force_eager"), kept, listener:
        wanted = [result for result in _floating(fn(*args)) if result.requires_grad]
        if backward and wanted:
            total = sum(result if result.ndim == 0 else result.sum() for result in wanted)
            assert isinstance(total, Tensor)  # of no results it is 0
            total.backward()
    return TypedTrace(tuple(listener.ops))


def _attention(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


PROBES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(x, x),
    "matmul": lambda x: x @ x,
    "attention": lambda x: _attention(x.view(1, 1, *x.shape)),
    "softmax": lambda x: F.softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "exp": torch.exp,
    "sum": torch.sum,
    "cumsum": lambda x: torch.cumsum(x, -1),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(len(x), dtype=torch.int64, device=x.device)),
    "mse_loss": lambda x: F.mse_loss(x, torch.zeros_like(x)),
    "add, to fp32": lambda x: x + torch.zeros(x.shape, device=x.device),
}
"""One call each, of a square matrix; what autocast does with it depends on the device."""


def probed(device: str) -> list[dict[str, Any]]:
    """Under autocast to bf16 on that device: what each call of ``PROBES`` computes in, given fp32 and given bf16.

    Rows ``{"call", "given", "ops": [[op, inputs, outputs]], "casts"}``, plain JSON values; no gradients.
    """
    rows = []
    for call, fn in PROBES.items():
        for given in (torch.float32, torch.bfloat16):
            x = torch.randn(64, 64, device=device).to(given)
            with torch.no_grad(), torch.autocast(device, torch.bfloat16):
                found = dtypes(fn, x)
            ops = [[op.op, list(op.inputs), list(op.outputs)] for op in found.ops if op.computes and op.inputs]
            rows.append({"call": call, "given": short(given), "ops": ops, "casts": len(found.casts)})
    return rows


def graph_casts(graph: Graph) -> int:
    """How many operations of an AOTAutograd graph convert one floating dtype into another."""
    return sum(node.op in CASTS and _converts(node.dtype, graph[node.inputs[0]].dtype) for node in graph.nodes)


def _converts(dtype: str, given: str) -> bool:
    return dtype != given and "float" in dtype and "float" in given


def casts_only(kernel: Kernel) -> bool:
    """True for a kernel that Inductor wrote and that computes nothing but casts (copies in another layout included)."""
    ops = [origin.op for origin in kernel.computed]
    return kernel.language != EXTERN and bool(ops) and all(_is_cast(op) for op in ops)


def _is_cast(op: str) -> bool:
    return "convert_element_type" in op or "_to_copy" in op


@dataclass(frozen=True)
class CastKernels:
    """Of the kernels in generated code: all launches, those that Inductor wrote, those that only cast, their bytes.

    ``casts`` are the casts in the post-grad graphs; ``fused`` are those that share a kernel with other work.
    """

    launches: int
    written: int
    only_casts: int
    only_casts_nbytes: int
    casts: int
    fused: int


def cast_kernels(graphs: Iterable[Any]) -> CastKernels:
    """What became of the casts in graphs of Inductor (``lowering.InductorGraph``): fused, or kernels of their own."""
    graphs = list(graphs)
    kernels = [kernel for graph in graphs for kernel in graph.kernels]
    alone = [kernel for kernel in kernels if casts_only(kernel)]
    casts = sum(_is_cast(node.op) for graph in graphs for node in graph.nodes)
    return CastKernels(
        launches=len(kernels),
        written=sum(kernel.language != EXTERN for kernel in kernels),
        only_casts=len(alone),
        only_casts_nbytes=sum(kernel.nbytes for kernel in alone),
        casts=casts,
        fused=casts - sum(len(kernel.computed) for kernel in alone),
    )
