"""A halo by hand: pooling over rows that lie on several ranks, with a row of each neighbour.

The shipped rule gathers the image on each rank. `local_map` takes a function of one rank's part and believes what it is
told of the result's placement, so a function that fetches its neighbours' rows itself is all that is needed.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import local_map

from compile_lab.doors import door

ROWS = 2


@door
def max_pool_with_halo(images: DTensor) -> DTensor:
    """``max_pool2d(images, 3, stride=1, padding=1)`` of images that are cut along their rows, on a mesh of one axis.

    Each rank sends its first row up and its last one down, pools, and keeps its own rows. There is no backward: the
    exchange is not one that autograd knows. Raises ValueError for images that are placed otherwise.

    >>> import torch.distributed.tensor as dt
    >>> from chapters.sharding_strategies.halo import max_pool_with_halo
    >>> from compile_lab.devices.collectives import pretended
    >>> with pretended(2):
    ...     mesh = dt.init_device_mesh("cpu", (2,))
    ...     max_pool_with_halo(dt.ones(1, 1, 8, 4, device_mesh=mesh, placements=[dt.Replicate()]))
    Traceback (most recent call last):
        ...
    ValueError: images are placed R with 8 rows on 2 ranks: cut them evenly along their rows, S(2)
    """
    mesh = images.device_mesh
    if images.placements != (Shard(ROWS),) or images.shape[ROWS] % mesh.size():
        raise ValueError(
            f"images are placed {', '.join(map(str, images.placements))} with {images.shape[ROWS]} rows on "
            f"{mesh.size()} ranks: cut them evenly along their rows, S(2)"
        )
    pooled = local_map(_pooled, out_placements=[Shard(ROWS)], in_placements=([Shard(ROWS)],), device_mesh=mesh)
    return pooled(images)


def halo_nbytes(images: DTensor) -> int:
    """What a rank between two others sends: two rows of each image and channel."""
    batch, channels, _, width = images.shape
    return 2 * batch * channels * width * images.dtype.itemsize


def _pooled(mine: Tensor) -> Tensor:
    """One rank's rows, pooled; outside of the image lies -inf, as max_pool2d has it."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    above = torch.full_like(mine[:, :, :1], -torch.inf)
    below = above.clone()
    talks = []
    if rank > 0:
        talks += [
            dist.P2POp(dist.isend, mine[:, :, :1].contiguous(), rank - 1),
            dist.P2POp(dist.irecv, above, rank - 1),
        ]
    if rank < last:
        talks += [dist.P2POp(dist.isend, mine[:, :, -1:].contiguous(), rank + 1)]
        talks += [dist.P2POp(dist.irecv, below, rank + 1)]
    for talk in dist.batch_isend_irecv(talks):
        talk.wait()
    return F.max_pool2d(torch.cat([above, mine, below], ROWS), 3, stride=1, padding=(0, 1))
