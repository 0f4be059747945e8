"""Pooling over rows on several ranks: right with a halo, and for fewer bytes than the shipped rule's gather."""

import pytest
import torch
import torch.nn.functional as F

from chapters.sharding_strategies.halo import halo_nbytes, max_pool_with_halo
from compile_lab.devices import ranks
from compile_lab.devices.collectives import Program, counted


def _pooled_both_ways():
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    torch.manual_seed(0)
    whole = torch.randn(1, 2, 16, 8)
    images = distribute_tensor(whole, mesh, [Shard(2)], src_data_rank=None)
    want = F.max_pool2d(whole, 3, 1, 1)
    got = max_pool_with_halo(images)
    shipped = counted(Program(lambda: F.max_pool2d(images, 3, 1, 1)))
    with pytest.raises(ValueError, match=r"images are placed S\(1\) with 16 rows"):
        max_pool_with_halo(distribute_tensor(whole, mesh, [Shard(1)], src_data_rank=None))
    return torch.equal(got.full_tensor(), want), halo_nbytes(images), sum(each.sent_nbytes for each in shipped)


@pytest.mark.parametrize("n", [2, 4])
def test_a_halo_is_right_and_sends_rows_alone(n):
    for right, rows, gathered in ranks.run(_pooled_both_ways, n, echo=False):
        assert right and rows == 2 * 2 * 8 * 4 < gathered
