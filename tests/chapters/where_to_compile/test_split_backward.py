"""A backward cut in two: the gradients are eager's, what cannot be cut is refused. Chapter 18 counts its matmuls."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from chapters.shared.subjects import ResidualMLP
from chapters.where_to_compile.split_backward import DI, DW, SplitBackward
from mini_model.model import MINI, Block

pytestmark = pytest.mark.processes
SMALL = replace(MINI, dim=16, heads=2)


class Tied(nn.Module):
    """One weight used twice, and one input that needs no gradient of its own."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return self.inner(self.inner(x).relu() * x.detach().sign())


def gradients(stage, x):
    stage(x).square().mean().backward()
    return [parameter.grad for parameter in stage.parameters()]


@pytest.mark.parametrize("compiler", [None, torch.compile], ids=["as it is", "Inductor"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ResidualMLP(16), id="MLP", marks=pytest.mark.matrix),
        pytest.param(lambda: Block(SMALL), id="block", marks=pytest.mark.matrix),
        pytest.param(Tied, id="tied"),
    ],
)
def test_the_weights_get_their_gradients_only_when_asked_and_they_are_eagers(make, compiler):
    torch.manual_seed(0)
    plain, backend = make(), SplitBackward(*[compiler] * bool(compiler))
    stage, x = copy.deepcopy(plain), torch.randn(2, 8, 16)
    stage.compile(backend=backend)
    for batch in (x, x + 1):  # the second one adds to the first
        mine, its = batch.clone().requires_grad_(), batch.clone().requires_grad_()
        before = [None if each.grad is None else each.grad.clone() for each in stage.parameters()]
        made, expected = gradients(stage, mine), gradients(plain, its)
        torch.testing.assert_close(mine.grad, its.grad)
        assert all(now is None if old is None else torch.equal(now, old) for now, old in zip(made, before, strict=True))
        backend.weights()()
        torch.testing.assert_close([parameter.grad for parameter in stage.parameters()], expected)


def test_a_stage_whose_input_needs_no_gradient_puts_all_off():
    backend = SplitBackward()
    stage = ResidualMLP(16)
    stage.compile(backend=backend)
    gradients(stage, torch.randn(8, 16))
    assert not backend.calls[DI]
    backend.weights()()
    assert backend.calls[DW]["aten.mm.default"] == 4  # the norm's weights need what passes through both layers


def test_of_two_backwards_the_newest_is_handed_out():
    backend = SplitBackward()
    stage, plain = ResidualMLP(16), ResidualMLP(16)
    stage.load_state_dict(plain.state_dict())
    stage.compile(backend=backend)
    first, second = torch.randn(2, 8, 16, requires_grad=True)
    gradients(stage, first), gradients(stage, second)
    backend.weights()()
    torch.testing.assert_close([parameter.grad for parameter in stage.parameters()], gradients(plain, second))
    before = [parameter.grad.clone() for parameter in stage.parameters()]
    backend.weights()()
    assert all(torch.equal(each.grad, old) for each, old in zip(stage.parameters(), before, strict=True)), "none waits"


def test_one_graph_for_two_blocks_is_refused():
    stage = nn.Sequential(ResidualMLP(16), ResidualMLP(16))  # whose blocks torch compiles one by one
    stage.compile(backend=SplitBackward())
    with pytest.raises(RuntimeError, match="weights of two blocks: compile the stage whole"):
        stage(torch.randn(8, 16, requires_grad=True))


def test_a_graph_without_weights_is_refused():
    with pytest.raises(Exception, match="without parameters"):
        torch.compile(torch.sin, backend=SplitBackward())(torch.ones(2, requires_grad=True))
