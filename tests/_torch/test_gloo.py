"""How many threads a gloo group has."""

import datetime
import sys

import pytest
import torch
import torch.distributed as dist

from compile_lab._torch import distributed


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(dist.ProcessGroupGloo, "__init__", dist.ProcessGroupGloo.__init__)  # restored at the end
    distributed.one_gloo_thread()
    distributed.one_gloo_thread()  # a second time changes nothing
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_every_gloo_group_has_one_thread_that_completes_its_collectives(world):
    """Two write one string without a lock: where torch gives a group one by itself, `one_gloo_thread` is not needed."""
    groups = [dist.group.WORLD, dist.new_group(), dist.new_group(backend="gloo")]
    assert [group._get_backend(torch.device("cpu")).options._threads for group in groups] == [1, 1, 1]
    assert dist.ProcessGroupGloo._Options()._threads == 2


def test_with_one_thread_many_gathers_on_their_way_come_back_in_order(world):
    gather, wait = (getattr(torch.ops._c10d_functional, name) for name in ("all_gather_into_tensor", "wait_tensor"))
    name = dist.new_group().group_name
    sent = [gather(torch.full((4,), float(each)), 1, name) for each in range(1000)]
    assert [wait(whole)[0].item() for whole in reversed(sent)] == list(reversed(range(1000)))


def test_a_group_keeps_the_patience_and_the_ranks_that_it_was_made_with(world):
    group = dist.new_group([0], timeout=datetime.timedelta(seconds=7))
    options = group._get_backend(torch.device("cpu")).options
    assert (options._timeout.total_seconds(), options.global_ranks_in_group) == (7, [0])
