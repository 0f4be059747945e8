"""What does it buy that Dynamo cuts a compiled model where a bucket of DDP is full? Called inside `ranks.run`.

A bucket's all-reduce starts when the backward has made its gradients. A compiled graph hands over all of its gradients
when its whole backward is done. So Dynamo cuts the graph where a bucket is full (``torch._dynamo.config.optimize_ddp``,
on by default): each piece has a backward of its own.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._torch.dynamo import dynamo_config
from .steps import training_step

WAYS: dict[str, bool | None] = {"eager": None, "cut at its buckets": True, "one graph": False}
"""Each way, and what ``optimize_ddp`` is in it; None: not compiled."""


def steps(
    make: Callable[[], nn.Module], x: Tensor, bucket_mb: float, group: dist.ProcessGroup | None = None
) -> dict[str, Callable[[], Tensor]]:
    """One training step (SGD) of the module that `make` gives in each of `WAYS`, compiled and run once.

    The module returns its loss. Buckets hold `bucket_mb` MB, but the first, which DDP makes smaller; they are sent over
    `group`, the default one if None.
    """
    return {way: _step(make(), way, x, bucket_mb, group) for way in WAYS}


def _step(
    module: nn.Module, way: str, x: Tensor, bucket_mb: float, group: dist.ProcessGroup | None
) -> Callable[[], Tensor]:
    cut = WAYS[way]
    if cut is not None:
        # A class of its own: a guard asks for it, or Dynamo would take the code that another way compiled.
        module.__class__ = type(way.title().replace(" ", ""), (type(module),), {})
        module.compile()
    ddp = DistributedDataParallel(module, process_group=group, bucket_cap_mb=bucket_mb)
    step = training_step(ddp, torch.optim.SGD(ddp.parameters(), lr=0.01), x)
    with dynamo_config.patch(optimize_ddp=bool(cut)):
        step()
    return step
