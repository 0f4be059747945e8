"""The exercises of chapter 03: a wrong answer is told what is wrong with it. The notebook checks its own solutions."""

import pytest
import torch
import torch.nn.functional as F
from answers import judged_as

from chapters.joint_graphs.in_page import KEPT_NBYTES
from compile_lab.aot.training import training_graphs


@pytest.mark.parametrize(("partitioner", "kept"), KEPT_NBYTES.items())
def test_a_partitioner_keeps_what_the_judge_of_03_1_says(partitioner, kept):
    inputs = [torch.ones(1000, requires_grad=True) for _ in range(2)]
    graphs = training_graphs(lambda x, w: torch.sin(x) * w, *inputs, partitioner=partitioner)
    assert graphs.saved_nbytes == kept


class KeepsAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, torch.sigmoid(x))
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        x, s = ctx.saved_tensors
        return gradient * s * (1 + x * (1 - s))


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("03.1", (0, 0), "default keeps more than 0 bytes"),
    ("03.1", (4000, 4000), "min_cut keeps less than 4000 bytes"),
    ("03.2", lambda x, w: x.sin() * w, "no matmul"),
    ("03.2", lambda x, w: x @ w, "no sine"),
    ("03.3", KeepsAll.apply, "keeps 512 bytes"),
    ("03.3", lambda x: x.sigmoid(), "not x * sigmoid(x)"),
    ("03.3", lambda x: F.silu(x).detach() + 0 * x, "the gradient is wrong"),
)
