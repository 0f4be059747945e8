"""A given model's step, sharded by FSDP2 on imaginary devices: what the patterns of many devices have in common."""

import copy
from collections.abc import Callable, Collection, Iterator

from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .._torch.dispatcher import without_fakes
from .given import GivenModel, loss_of


def one_axis(devices: int, name: str) -> DeviceMesh:
    """A mesh of one axis over all devices; a mesh reads real numbers."""
    with without_fakes():
        return init_device_mesh("cpu", (devices,), mesh_dim_names=(name,))


def outer_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost lists of modules: lists inside a block belong to that block."""
    for child in module.children():
        yield from child if isinstance(child, nn.ModuleList) else outer_blocks(child)


def copied(given: GivenModel) -> nn.Module:
    """A copy of the model, whose fake tensors, if it has any, go with those of the batch."""
    fakes = given.fakes
    return copy.deepcopy(given.model, {id(fakes): fakes})


def fully_sharded(given: GivenModel, mesh: DeviceMesh, apart: Collection[str] = ()) -> tuple[nn.Module, int]:
    """A copy of the model, FSDP2 on its blocks and on the rest, and how many parts that is.

    Parameters whose names are in ``apart`` stay whole, and so do scalars, which FSDP2 refuses.
    """
    from torch.distributed.fsdp import fully_shard

    model = copied(given)
    whole = {each for name, each in model.named_parameters() if name in apart or not each.ndim}
    blocks = [block for block in outer_blocks(model) if not whole.issuperset(block.parameters())]
    for part in (*blocks, model):
        fully_shard(part, mesh=mesh, ignored_params=whole)
    return model, len(blocks) + 1


def step_of(model: nn.Module, given: GivenModel) -> Callable[[], None]:
    """Forward and backward of this model on the batch that was handed over."""
    return lambda: loss_of(model(*given.args, **given.kwargs), given.rule).backward()


def forget_gradients(model: nn.Module) -> None:
    """No parameter has a gradient afterwards."""
    for parameter in model.parameters():
        parameter.grad = None
