"""DTensors in compiled code: an output that nobody uses, and a collective that is still on its way."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from compile_lab.recordings import RecordedRow

from .grid import first_line

BACKENDS = "eager", "aot_eager", "inductor"
Program = Callable[[Callable], tuple[Tensor | None, Tensor]]
"""From a compiler, or what leaves a function as it is, to a gradient, None where there is none, and the right one."""


@dataclass(frozen=True)
class Outcome(RecordedRow):
    """What became of a program under a backend ("eager": not compiled)."""

    program: str
    backend: str
    error: str = ""
    gradient: float | None = None
    """Its largest distance from the right one, relative to that one's largest element; None where there is none."""

    @property
    def words(self) -> str:
        if self.error:
            return self.error
        if self.gradient is None:
            return "no gradient, and no error"
        return "right" if self.gradient < 1e-5 else f"off by {self.gradient:.1g} of its size"


def on_rank(backends: Sequence[str] = BACKENDS) -> list[Outcome]:
    """Each program under each backend, on this rank."""
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    programs: dict[str, Program] = {
        "two outputs, both used": partial(_outputs, mesh, 1.0),
        "two outputs, one used": partial(_outputs, mesh, None),
        "a collective on its way": partial(_collective, mesh),
        "the same, a parameter in the compiled code": partial(_collective, mesh, with_weight=True),
        "the same after `.wait()`": partial(_collective, mesh, first=_waited),
        "the same after an operation": partial(_collective, mesh, first=lambda total: total * 1),
        "with `async_op=False`": partial(_collective, mesh, async_op=False),
    }
    return [_outcome(name, backend, each) for name, each in programs.items() for backend in backends]


def _start() -> Tensor:
    return torch.arange(1.0, 17).view(4, 4) / 8


def _outputs(mesh: DeviceMesh, share: float | None, compiled: Callable) -> tuple[Tensor | None, Tensor]:
    x = distribute_tensor(_start(), mesh, [Shard(0)]).requires_grad_()
    sine, cosine = compiled(lambda x: (x.sin(), x.cos()))(x)
    loss = sine.sum() if share is None else sine.sum() + share * cosine.sum()
    loss.full_tensor().backward()
    gradient = x.grad.full_tensor() if isinstance(x.grad, DTensor) else x.grad
    return gradient, _start().cos() - (share or 0) * _start().sin()


def _collective(
    mesh: DeviceMesh,
    compiled: Callable,
    first: Callable[[Tensor], Tensor] = lambda total: total,
    with_weight: bool = False,
    async_op: bool = True,
) -> tuple[Tensor | None, Tensor]:
    """Twice a sum over the ranks, from a compiled function that may get it before it has come."""
    x, weight = _start().requires_grad_(), torch.ones(4, requires_grad=True)
    partial_sum = DTensor.from_local(x, mesh, [Partial()])
    total = first(partial_sum.redistribute(placements=[Replicate()], async_op=async_op).to_local())
    if with_weight:
        out = compiled(lambda total, weight: 2 * total * weight)(total, weight)
    else:
        out = compiled(lambda total: 2 * total)(total) * weight
    out.square().sum().backward()
    return x.grad, 8 * _start() * mesh.size()


def _waited(total: Tensor) -> Tensor:
    return total.wait() if hasattr(total, "wait") else total


def _outcome(name: str, backend: str, program: Program) -> Outcome:
    torch.compiler.reset()
    try:
        made, exact = program((lambda fn: fn) if backend == "eager" else partial(torch.compile, backend=backend))
    except Exception as error:
        return Outcome(name, backend, error=first_line(error))
    off = None if made is None else ((made - exact).abs().max() / exact.abs().max()).item()
    return Outcome(name, backend, gradient=off)
