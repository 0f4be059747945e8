"""Parts of a tensor: as torch places them, and put together again."""

import pytest
import torch
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

from compile_lab.devices.collectives import fake_process_group
from compile_lab.devices.placements import parts, reduced, whole

WORDS = ("R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8])
def test_parts_make_the_tensor(word, ranks, dtype):
    x = (torch.arange(15).reshape(5, 3) * 7 % 11).to(dtype)
    held = parts(x, word, ranks)
    assert len(held) == ranks and all(each.dtype == dtype for each in held)
    made = whole(held, word)
    if not (dtype is torch.uint8 and word == "P(avg)"):  # bytes overflow; a mean of them means nothing
        torch.testing.assert_close(made, x)


@pytest.mark.parametrize("size", [1, 4, 5, 8])
def test_shards_are_those_that_torch_makes(size):
    x = torch.arange(3.0 * size).reshape(size, 3)
    for rank in range(4):
        with fake_process_group(4, rank):
            mesh = init_device_mesh("cpu", (4,))
            theirs = distribute_tensor(x, mesh, [Shard(0)], src_data_rank=None).to_local()
        assert torch.equal(parts(x, "S(0)", 4)[rank], theirs)


def test_parts_of_a_partial_value_are_not_the_value():
    x = torch.tensor([1.0, -2.0, 3.0, 4.0])
    for word in WORDS[3:]:
        assert not any(torch.equal(part, x) for part in parts(x, word, 2)), word
    first, second = parts(x, "P(max)", 2)
    assert first.tolist() == [1.0, -5.0, 3.0, -5.0] and torch.equal(reduced((first, second), "max"), x)
