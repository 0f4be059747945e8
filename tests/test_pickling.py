"""What only torch can make travels by name: it is the very same in a process that has torch."""

import pickle

import pytest
import torch

from compile_lab.pickling import dumps

aten = torch.ops.aten


class Holds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = aten.mm.default

    def forward(self, x):
        return self.product(x, x)


@pytest.mark.parametrize(
    "thing",
    [torch.ops, aten, aten.mm, aten.mm.default, torch.ops.higher_order.flex_attention, torch._dynamo.config],
    ids=str,
)
def test_what_torch_alone_can_make_is_the_same_thing(thing):
    assert pickle.loads(dumps(thing)) is thing
    assert pickle.loads(dumps(lambda: thing))() is thing


def test_a_module_that_holds_an_operator_travels():
    again = pickle.loads(dumps(Holds()))
    assert torch.equal(again(torch.ones(2, 2)), torch.full((2, 2), 2.0))
