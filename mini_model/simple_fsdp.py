"""SimpleFSDP: a parameter is kept in slices, one a rank, and whoever reads it gathers the whole.

That is all of it. There is no hook, no stream and no wrapped module: a parametrization stands between the slices and
their reader. Its forward is an all-gather, its backward a reduce-scatter, and both are operators that a compiler sees
in its graph. Eagerly each parameter is gathered when it is read, waited for at once, and kept until its gradient is
there; to gather several together, sooner, and once more in the backward is left to the compiler (Zhang et al. 2024).
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn.utils.parametrize import register_parametrization
from torch.utils.checkpoint import checkpoint

from .inputs import instance

M = TypeVar("M", bound=nn.Module)


class Gather(nn.Module):
    """From the slices of a parameter the whole of it: a DTensor in, a plain tensor out.

    dtype: what is gathered and computed with is of this type. The gradient is averaged in the slices' own.
    again: the whole is not kept for the backward, which gathers it once more. Only a compiler can do that: eagerly the
    operator that reads the whole saves it for itself.
    """

    def __init__(self, dtype: torch.dtype | None = None, again: bool = False) -> None:
        super().__init__()
        self.dtype, self.again = dtype, again

    def forward(self, slices: DTensor) -> Tensor:
        if not self.again:
            return self.gathered(slices)
        return checkpoint(self.gathered, slices, use_reentrant=False)

    def gathered(self, slices: DTensor) -> Tensor:
        whole = slices.redistribute(
            placements=[Replicate()], forward_dtype=self.dtype, backward_dtype=self.dtype and slices.dtype
        )
        return whole.to_local(grad_placements=[Partial("avg")])


def simple_fsdp(model: M, mesh: DeviceMesh, *, dtype: torch.dtype | None = None, again: bool = False) -> M:
    """The same model, with each parameter in slices of its rows over the mesh, gathered where it is read.

    Every rank begins with the same weights, takes its own rows of a batch, and finds its slice of the mean gradient in
    ``.grad``. A tied parameter stays one. dtype, again: as of `Gather`. A parametrization is in each name:
    ``up.weight`` is ``up.parametrizations.weight.original``.

    Raises TypeError for what is no module, mesh or floating dtype. ValueError for a mesh of several axes, for a
    parameter that is sliced already or has rows that the ranks cannot share equally: that one would be padded, in each
    step and on each rank otherwise, so that the ranks would compile different graphs. All before anything is changed.
    """
    instance("model", model, nn.Module), instance("mesh", mesh, DeviceMesh), instance("again", again, bool)
    if dtype is not None and not instance("dtype", dtype, torch.dtype).is_floating_point:
        raise TypeError(f"dtype is {dtype}; it must be a floating one, such as torch.bfloat16")
    if mesh.ndim != 1:
        raise ValueError(f"the mesh has {mesh.ndim} axes {mesh.mesh_dim_names or ''}; take one: mesh['shard']")
    for name, parameter in model.named_parameters():
        _check(name, parameter, mesh.size())

    sliced: dict[nn.Parameter, nn.Parameter] = {}
    for module in list(model.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter not in sliced:
                sliced[parameter] = nn.Parameter(_slices(parameter, mesh), parameter.requires_grad)
            setattr(module, name, sliced[parameter])
            register_parametrization(module, name, Gather(dtype, again), unsafe=True)  # it may change the type
    return model


def _check(name: str, parameter: nn.Parameter, ranks: int) -> None:
    if isinstance(parameter, DTensor):
        raise ValueError(f"{name} is in slices already: simple_fsdp takes a new model")
    if parameter.ndim == 0:
        raise ValueError(f"{name} is a single number, which has no rows to share: make it a tensor of one dimension")
    if parameter.shape[0] % ranks:
        raise ValueError(
            f"{name} has {parameter.shape[0]} rows, which {ranks} ranks cannot share equally; pad it in the model, as "
            f"a vocabulary is padded: {-(-parameter.shape[0] // ranks) * ranks} rows would do"
        )


def _slices(parameter: nn.Parameter, mesh: DeviceMesh) -> DTensor:
    """Each rank cuts its slice out of the whole that it has: nothing is sent, and no slice keeps the whole alive."""
    mine = parameter.detach().chunk(mesh.size())[mesh.get_local_rank()].to(mesh.device_type).clone()
    return DTensor.from_local(mine, mesh, [Shard(0)], run_check=False)
