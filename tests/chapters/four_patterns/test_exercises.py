"""Exercises of chapter 11: a right answer passes, a starter and wrong answers do not, and each is told why."""

import pytest
import torch.distributed as dist
import torch.nn.functional as F

from chapters.exercises import check

pytestmark = pytest.mark.processes


def sent(blocks, rest, n):
    return (3 * blocks + 2 * rest) * (n - 1) / n


def whole_each_time(blocks, rest, n):
    return 3 * (blocks + rest) * (n - 1) / n


def as_ddp(blocks, rest, n):
    return 2 * (blocks + rest) * (n - 1) / n


def mlp(x, up, down):
    y = F.gelu(x @ up.T) @ down.T
    dist.all_reduce(y)
    return y


def partial(x, up, down):
    return F.gelu(x @ up.T) @ down.T


def gathered(x, up, down):
    import torch

    ups = [torch.empty_like(up) for _ in range(2)]
    downs = [torch.empty_like(down.contiguous()) for _ in range(2)]
    dist.all_gather(ups, up)
    dist.all_gather(downs, down.contiguous())
    return F.gelu(x @ torch.cat(ups).T) @ torch.cat(downs, 1).T


@pytest.mark.parametrize(("name", "answer"), [("11.1", sent), ("11.2", {"pp": 8, "shard": 2, "tp": 4}), ("11.3", mlp)])
def test_a_right_answer_passes(name, answer):
    outcome = check(name, answer)
    assert outcome.passed, outcome


@pytest.mark.parametrize(("name", "answer", "said"), [
    ("11.1", ..., "no answer yet"),
    ("11.1", as_ddp, "more than 800 bytes"),
    ("11.1", whole_each_time, "less than 1,800"),
    ("11.2", {"pp": 2, "shard": 16, "tp": 4}, "a mesh of 128 devices"),
    ("11.2", {"pp": 1, "shard": 64, "tp": 1}, "leave the machine in a step, along shard"),
    ("11.2", {"pp": 3, "shard": 8, "tp": 4}, "ValueError: layers=40"),
    ("11.2", 8, "the sizes of the axes"),
    ("11.3", partial, "on rank 0 the result differs"),
    ("11.3", gathered, "took 2 all_gather"),
    ("11.3", lambda x, up, down: 1 / 0, "ZeroDivisionError"),
    ("11.3", 3, "asks for a function"),
])  # fmt: skip
def test_a_wrong_answer_is_told_why(name, answer, said):
    outcome = check(name, answer)
    assert not outcome.passed and said in outcome.wrong, outcome
