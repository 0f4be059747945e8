"""Collectives inside compiled graphs: which nodes they become, and in what order the generated code starts and awaits
them. A collective that is awaited at once hides nothing; what lies between its start and its wait can hide it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.dynamo import reset_dynamo
from .._torch.inductor import generated_sources
from ..doors import door
from ..inductor.wrapper import Called, Launched, Started, Waited, Wrapper

STARTS = {"all_gather": "AG", "reduce_scatter": "RS", "all_reduce": "AR"}
_MATMUL = re.compile(r"extern_kernels\.(mm|addmm|bmm)|_mkl_linear|_linear_pointwise")

REORDERED = {
    "reorder_for_compute_comm_overlap": True,
    "reorder_for_compute_comm_overlap_passes": [
        "reorder_communication_preserving_peak_memory",
        "sink_waits_iterative",
        "reorder_communication_preserving_peak_memory",
    ],
}
"""Inductor's options: start a collective earlier, wait for it later, where the peak of memory does not rise."""

BUCKETED = {"bucket_all_gathers_fx": "all", "bucket_reduce_scatters_fx": "all"}
"""Inductor's options: join the all-gathers of a graph into large ones, and its reduce-scatters."""


def order(source: str) -> tuple[str, ...]:
    """In what order does generated code start and await collectives, and compute?

    "AG0", "RS1", "AR2" start an all-gather, a reduce-scatter, an all-reduce, "C3" another collective; "w0" waits for
    number 0. "MM" is a matmul of a library, "k" a generated kernel.
    """
    tokens: list[str] = []
    numbers: dict[str, int] = {}
    for call in Wrapper.of(source).calls:
        match call:
            case Waited(arguments=places):
                tokens += [f"w{numbers[place]}" for place in places]
            case Started(op):
                number = numbers[call.place] = len(numbers)
                kind = next((short for known, short in STARTS.items() if op.partition(".")[2].startswith(known)), "C")
                tokens.append(f"{kind}{number}")
            case Launched():
                tokens.append("k")
            case Called(op) if _MATMUL.search(op):
                tokens.append("MM")
    return tuple(tokens)


def orders(step: Callable[[], Any]) -> tuple[tuple[str, ...], ...]:
    """The order in each graph that Inductor compiles while ``step`` runs: the forward's first, then the backward's.

    `step` calls a compiled function for the first time. Raises ValueError if nothing was compiled.
    """
    sources = generated_sources(step)
    if not sources:
        raise ValueError("nothing was compiled while the step ran: give a step whose code is not compiled yet")
    return tuple(order(source) for source in sources)


@dataclass(frozen=True)
class Compiled:
    """What became of a function as one graph: its nodes and whether the value is the same; or why there is none."""

    nodes: tuple[str, ...]
    equal: bool | None = None
    error: str = field(default="", repr=False)

    @property
    def collectives(self) -> tuple[str, ...]:
        """The nodes that communicate, in order."""
        return tuple(node for node in self.nodes if re.search(r"all_|reduce_|p2p|send|recv|wait", node))


@door
def compiled(fn: Callable[..., Any], *args: Any) -> Compiled:
    """Does ``fn`` compile as a whole on this rank, to which nodes, and does Inductor's code compute what ``fn`` does?

    Every rank calls it, as it would ``fn``, with the same arguments but for their values. Values are the same within
    the tolerances that `torch.testing.assert_close` has for their dtype: compiled code may round in another order.

    >>> import torch
    >>> from compile_lab.devices import compiled
    >>> compiled(lambda x: x @ x, torch.ones(4, 4))
    Compiled(nodes=('matmul',), equal=True)
    """
    nodes: list[str] = []

    def recording(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nodes.extend(_named(node) for node in module.graph.nodes if node.op in ("call_function", "call_method"))
        return module.forward

    reset_dynamo()
    try:
        torch.compile(fn, backend=recording, fullgraph=True)(*args)
    except Exception as error:
        return Compiled((), error=_reason(error))
    reset_dynamo()
    return Compiled(tuple(nodes), _same(torch.compile(fn, fullgraph=True)(*args), fn(*args)))


def _same(found: Any, wanted: Any) -> bool:
    try:
        torch.testing.assert_close(found, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


def _named(node: torch.fx.Node) -> str:
    if isinstance(node.target, str):
        return node.target
    name: str = getattr(node.target, "__name__", str(node.target))
    return name.removesuffix(".default")


def _reason(error: Exception) -> str:
    """The first line that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
