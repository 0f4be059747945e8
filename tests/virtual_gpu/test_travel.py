"""What goes to a child: a module with parametrizations, which torch itself refuses to pickle, is the same there."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from compile_lab.virtual_gpu import travel


@pytest.mark.parametrize("values", [True, False])
def test_a_parametrized_module_travels(values):
    module = nn.Sequential(weight_norm(nn.Conv1d(4, 4, 3)), nn.ReLU())
    again = travel.loads(travel.dumps(module, values=values))
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in module.named_parameters()]
    assert type(again[0]).__name__ == "ParametrizedConv1d" and again[0].weight.shape == (4, 4, 3)
    if values:
        x = torch.randn(2, 4, 8)
        assert torch.equal(again(x), module(x))
