"""What is judged: outputs, gradients, and what the function changes; tensors of one storage are of one there, too."""

import sys

import pytest
import torch
from torch import nn

from compile_lab.virtual_gpu.client import interpret

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")]


def doubled(x):
    x.mul_(2.0)
    return x.new_ones(4).sin()


def test_what_a_function_changes_is_judged():
    right = interpret(doubled, torch.ones(4))
    assert right.worst == 0 and set(right.errors) == {"output", "x afterwards"}
    forged = interpret(doubled, torch.ones(4), edit=lambda _, source: source.replace("2.0", "3.0"))
    assert forged.errors == {"output": 0, "x afterwards": 0.5}


def test_running_statistics_are_judged():
    found = interpret(nn.BatchNorm1d(4), torch.randn(8, 4, generator=torch.Generator().manual_seed(0)))
    changed = {name: error for name, error in found.errors.items() if name.endswith("afterwards")}
    assert set(changed) == {f"{each} afterwards" for each in ("running_mean", "running_var", "num_batches_tracked")}
    assert max(changed.values()) < 1e-5


def test_views_of_one_storage_stay_views_of_one():
    base = torch.zeros(8)

    def step(a, b):
        a.add_(1)
        return b * 10

    assert interpret(step, base[:4], base[2:6]).outputs.tolist() == [10, 10, 0, 0]
