"""The same DTensor program eager and compiled: what does each send, and are the gradients the same?

Eager collectives are seen by a dispatch mode. Compiled ones are read from the graphs that AOTAutograd makes: a dispatch
mode that is active switches Dynamo off, and would count the eager program twice.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from compile_lab._torch.aot import aot_pieces
from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.devices.collectives import Program, counted, kind_of
from compile_lab.doors import door
from compile_lab.simulator.collectives import Collective

Build = Callable[[DeviceMesh], tuple[Callable[[], Tensor], Mapping[str, Tensor]]]
"""Makes a program on a mesh: a function that gives the loss, and the parameters by name."""


@dataclass(frozen=True)
class EagerAndCompiled:
    """Collectives of one step, forward and backward, of both; ``apart`` is the largest difference of a gradient, in
    parts of the largest gradient. ``refused`` says which operator this torch's DTensor would not split; then the rest
    is empty."""

    eager: tuple[Collective, ...] = ()
    compiled: tuple[Collective, ...] = ()
    apart: float = 0.0
    refused: str = ""


@door
def eager_and_compiled(build: Build, mesh: DeviceMesh) -> EagerAndCompiled:
    """One step of the program that ``build`` makes, on this rank of a group that is up; every rank calls it.

    The program is made twice and compiled whole. The mesh has one axis. Placements are known before anything runs, so
    that what one rank's DTensor refuses, every rank's does.
    """
    loss, parameters = build(mesh)
    try:
        eager = counted(Program(lambda: loss().backward(), (), mesh))
    except RuntimeError as error:
        if not (refused := re.search(r"Sharding propagation failed for ([\w.]+)", str(error))):
            raise
        return EagerAndCompiled(refused=refused[1].removesuffix(".default"))
    exact = _gradients(parameters)
    loss, parameters = build(mesh)
    graphs: list[torch.fx.GraphModule] = []
    reset_dynamo()
    torch.compile(loss, backend=_keeping(graphs), fullgraph=True)().backward()
    found = _gradients(parameters)
    most = max(each.abs().max().item() for each in exact.values())
    apart = max((found[name] - each).abs().max().item() for name, each in exact.items()) / most
    return EagerAndCompiled(eager, _collectives(graphs, mesh), apart)


def _gradients(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    grads = {name: each.grad for name, each in parameters.items() if each.grad is not None}
    return {name: each.full_tensor() if isinstance(each, DTensor) else each for name, each in grads.items()}


def _keeping(graphs: list[torch.fx.GraphModule]) -> Callable[..., Any]:
    """A backend that keeps the forward and the backward, as Inductor would get them, and runs them as they are."""

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        pieces = aot_pieces()

        def kept(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            graphs.append(graph)
            return pieces.boxed_nop(graph, inputs)

        made = pieces.aot_autograd(
            fw_compiler=kept,
            bw_compiler=kept,
            partition_fn=pieces.min_cut_partition,
            decompositions=pieces.decompositions(),
        )
        return made(module, inputs)

    return backend


def _collectives(graphs: list[torch.fx.GraphModule], mesh: DeviceMesh) -> tuple[Collective, ...]:
    """Of all graphs, sorted by kind; those of a single number are left out, as `counted` does."""
    counts, nbytes = Counter[str](), Counter[str]()
    for graph in graphs:
        for node in graph.graph.nodes:
            kind = kind_of(node.target) if getattr(node.target, "namespace", "") == "_c10d_functional" else None
            if kind:
                sides = [each.meta["val"] for each in (node, *node.all_input_nodes)]
                larger = max(sides, key=lambda side: side.nbytes)
                if larger.numel() > 1:
                    counts[kind] += 1
                    nbytes[kind] += larger.nbytes
    (axis,) = mesh.mesh_dim_names or ("world",)
    return tuple(Collective(kind, axis, mesh.size(), counts[kind], nbytes[kind]) for kind in sorted(counts))


@door
def block_of(module: nn.Module, *given: Tensor) -> tuple[Callable[[], Tensor], dict[str, Tensor]]:
    """A module's mean square as a program for `eager_and_compiled`."""
    return lambda: module(*given).square().mean(), dict(module.named_parameters())
