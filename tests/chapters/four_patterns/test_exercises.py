"""Exercises of chapter 11: a right answer passes, a starter and wrong answers do not, and each is told why."""

import pytest
import torch.distributed as dist
import torch.nn.functional as F
from answers import judged_as

pytestmark = pytest.mark.processes


def whole_each_time(blocks, rest, n):
    return 3 * (blocks + rest) * (n - 1) / n


def gathered(x, up, down):
    import torch

    ups = [torch.empty_like(up) for _ in range(2)]
    downs = [torch.empty_like(down.contiguous()) for _ in range(2)]
    dist.all_gather(ups, up)
    dist.all_gather(downs, down.contiguous())
    return F.gelu(x @ torch.cat(ups).T) @ torch.cat(downs, 1).T


test_a_wrong_answer_is_told_why = judged_as(
    ("11.1", whole_each_time, "less than 1,800"),
    ("11.2", {"pp": 2, "shard": 16, "tp": 4}, "a mesh of 128 devices"),
    ("11.2", {"pp": 3, "shard": 8, "tp": 4}, "ValueError: layers=40"),
    ("11.3", gathered, "took 2 all_gather"),
    ("11.3", lambda x, up, down: 1 / 0, "ZeroDivisionError"),
)
