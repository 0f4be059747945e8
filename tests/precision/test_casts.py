"""Which operation ran in which precision: traces of small models, casts in graphs."""

import pytest
import torch
from torch import nn

from compile_lab.precision import casts


class Two(nn.Module):
    """Two layers whose second reads the first's result, and a norm that is given bf16."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(4, 8), nn.Linear(8, 4, bias=False), nn.LayerNorm(4)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.norm(self.second(self.first(x))).float().sum()


@pytest.fixture
def two():
    torch.manual_seed(0)
    return Two()


@pytest.fixture
def x():
    return torch.randn(3, 4)


def test_a_cast_is_told_by_what_it_casts_and_for_whom(two, x):
    trace = casts.dtypes(two, x)
    told = {(cast.name, cast.reader) for cast in trace.casts if cast.what == "parameter"}
    assert told == {("first.weight", "aten.addmm"), ("first.bias", "aten.addmm"), ("second.weight", "aten.mm")}
    returned = {cast.name for cast in trace.casts if cast.what == "parameter's gradient"}
    assert returned == {"first.weight", "first.bias", "second.weight"}
    (given,) = (cast for cast in trace.casts if cast.what == "activation" and cast.reader == "aten.addmm")
    assert (given.inputs, given.outputs, given.nbytes) == (("fp32",), ("bf16",), 3 * 4 * 2)
    assert trace.cast_counts()["parameter"] == 3 and set(trace.parameter_casts().values()) == {1}
    (norm,) = (one for one in trace.ops if one.op == "aten.native_layer_norm" and one.direction == "forward")
    assert norm.inputs == ("bf16", "fp32"), "on a CPU it computes in what it is given, and its weight is fp32"
    assert sum(row["count"] for row in trace.table()) == sum(one.computes for one in trace.ops)


def test_gradients_are_as_they_were_and_without_autocast_nothing_is_cast(two, x):
    two.first.weight.grad = before = torch.ones(8, 4)
    leaf = x.clone().requires_grad_()
    casts.dtypes(two, leaf)
    assert two.first.weight.grad is before and torch.equal(before, torch.ones(8, 4)) and leaf.grad is None
    assert not casts.dtypes(lambda x: (two.first(x), two.norm(x)), x, model=two).casts
    assert not [one for one in casts.dtypes(two, x, backward=False).ops if one.direction == "backward"]
