"""An eager step's bytes are those of real memory: of what a tensor wraps, of this rank's part, of a resized storage."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from wrapping import Silent, Wrapped, quantised

from compile_lab._torch.distributed import fake_group
from compile_lab.eager import eager_saved
from compile_lab.memory import eager_lifetimes, fake_tensors

RANKS = 8


@pytest.fixture
def mesh():
    fake_group(RANKS, 0)
    yield init_device_mesh("cpu", (RANKS,))
    dist.destroy_process_group()


def sizes(found):
    return [(each.kind, each.name, each.nbytes) for each in found.tensors if each.is_resident]


# What wraps tensors


def test_a_quantised_weight_is_its_numbers_and_its_scales():
    layer, x = quantised(nn.Linear(256, 256, bias=False)), torch.ones(4, 256)
    found = eager_lifetimes(lambda: layer(x), layer)
    assert sizes(found)[:2] == [("parameter", "weight", 65_536), ("parameter", "weight", 1024)]
    assert found.resident_nbytes == 66_560 + x.nbytes
    assert [moment.name for moment in found.timeline] == ["mul", "mm"], "what the wrapper runs is seen"
    assert found.peak_nbytes == 256 * 256 * 4 + 4 * 256 * 4 and found.left_nbytes == 4 * 256 * 4
    unnamed = eager_lifetimes(lambda: layer(x))
    assert unnamed.resident_nbytes == found.resident_nbytes


def test_a_wrapper_in_a_wrapper_is_what_lies_innermost():
    inner = Wrapped(torch.ones(8, 8, dtype=torch.int8), torch.ones(8, 1))
    outer = Wrapped(inner, torch.ones(8, 1))
    found = eager_lifetimes(lambda: outer + 1)
    assert found.resident_nbytes == 64 + 32 + 32
    assert [moment.name for moment in found.timeline] == ["mul", "mul", "add"] and found.left_nbytes == 256


def test_what_wraps_and_does_not_say_what_is_refused_by_name():
    silent = Silent(torch.ones(8, dtype=torch.int8), torch.ones(1))
    with pytest.raises(ValueError, match=r"Silent is a tensor that wraps others .*: give it __tensor_flatten__ and"):
        eager_lifetimes(lambda: silent + 1)


def test_a_dtensor_is_this_ranks_part(mesh):
    weight = distribute_tensor(torch.ones(64, 32), mesh, [Shard(0)]).requires_grad_()
    whole = eager_lifetimes(lambda: (weight * 2).exp().sum().backward())
    part = 64 * 32 * 4 // RANKS
    assert whole.resident_nbytes == part and whole.left_nbytes == part
    assert [each.nbytes for each in whole.tensors if each.kind == "gradient"] == [part]
    assert max(each.nbytes for each in whole.tensors) == part, "nothing of the whole's size"
    (saved,) = eager_saved(lambda: (weight * 2).exp())
    assert saved.nbytes == saved.extra_nbytes == part and saved.shape == (64, 32)


def test_fsdp_has_its_slices_before_the_step_and_gathers_a_layer_at_a_time(mesh):
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    x = torch.ones(4, 256)
    slices = sum(each.to_local().nbytes for each in model.parameters())
    for again in range(2):
        found = eager_lifetimes(lambda: model(x).sum().backward(), model)
        gradients = slices * again
        assert found.resident_nbytes == slices + gradients + x.nbytes and slices == 4 * (256 * 256 + 256) * 4 // RANKS
        assert found.left_nbytes <= slices
        model.zero_grad(set_to_none=False)
    layer = (256 * 256 + 256) * 4
    gathered = [each.nbytes for each in found.tensors if each.op == "UntypedStorage.resize_" and each.nbytes]
    assert sum(gathered) == 4 * layer + 4 * layer, "all layers, forward and backward"


def test_what_autograd_saves_of_a_wrapper_is_what_it_wraps():
    layer, x = quantised(nn.Linear(256, 256, bias=False)), torch.ones(256, 256, requires_grad=True)
    (weight,) = eager_saved(lambda weight: x * weight, layer.weight)
    assert weight.nbytes == 66_560 and weight.extra_nbytes == 0 and weight.resident
    (other,) = eager_saved(lambda: x * layer.weight)
    assert other.nbytes == other.extra_nbytes == 66_560 and not other.resident
    assert [each.extra_nbytes for each in eager_saved(lambda: x * layer.weight + x * layer.weight)] == [66_560, 0]


# Storages that change their size


def resized(tensor, *nbytes):
    for each in nbytes:
        tensor.untyped_storage().resize_(each)


def test_a_storage_counts_while_it_has_its_size():
    gathered = torch.empty(1000)
    resized(gathered, 0)

    def step():
        resized(gathered, 4000)
        loss = (gathered.fill_(1) * 2).sum()
        resized(gathered, 0)
        return loss

    found = eager_lifetimes(step)
    assert found.peak_nbytes == 8004 and found.left_nbytes == 4 and found.resident_nbytes == 0
    assert [moment.live_bytes for moment in found.timeline] == [4000, 4000, 8000, 8004, 4004]
    assert {moment.source.function for moment in found.timeline if moment.name == "resize_"} == {"resized"}
    assert [(each.nbytes, each.birth, each.death) for each in found.tensors if each.nbytes == 4000] == [
        (4000, 0, 4),
        (4000, 2, 3),
    ]


@pytest.mark.parametrize("grow", [lambda x: x.resize_(3000), lambda x: torch.ones(3000, out=x)])
def test_an_operation_that_gives_a_tensor_more_memory_is_seen(grow):
    x = torch.empty(0)
    found = eager_lifetimes(lambda: grow(x) + 1)
    assert found.timeline[0].live_bytes == 12_000 and found.peak_nbytes == found.timeline[-1].live_bytes == 24_000
    with fake_tensors():
        x = torch.empty(0)
        assert eager_lifetimes(lambda: grow(x) + 1).peak_nbytes == 24_000


def test_resizing_is_torchs_own_again_after_the_step():
    before = torch.UntypedStorage.resize_
    eager_lifetimes(lambda: torch.ones(2) + 1)
    assert torch.UntypedStorage.resize_ == before and "resize_" not in vars(torch.UntypedStorage)
