"""The whole step as one graph is eager's step, to the bit; passes make graphs of graphs; what does not fit is told."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.simple_fsdp.whole_step import AdamWRule, peak_nbytes, updates_at_once, whole_step
from chapters.simple_fsdp.whole_step_judged import judged_steps
from mini_model.model import GPTConfig, MiniGPT

pytestmark = pytest.mark.processes

TINY = GPTConfig(vocabulary=32, context=8, dim=16, layers=2, heads=2, tied_head=True)


class Fitted(nn.Module):
    """Layers as deep as wanted, a batch norm, dropout, and a frozen parameter."""

    def __init__(self, layers=4, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(layers))
        self.norm, self.dropout = nn.BatchNorm1d(32), nn.Dropout(dropout)
        self.scale = nn.Parameter(torch.full((32,), 0.5), requires_grad=False)

    def forward(self, x, y):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return F.mse_loss(self.dropout(self.norm(x)) * self.scale, y)


def tokens(count=3):
    generator = torch.Generator().manual_seed(0)
    return [tuple(torch.randint(32, (2, 8), generator=generator) for _ in range(2)) for _ in range(count)]


def rows(count=3):
    generator = torch.Generator().manual_seed(0)
    return [tuple(torch.randn(4, 32, generator=generator) for _ in range(2)) for _ in range(count)]


def tiny():
    torch.manual_seed(0)
    return MiniGPT(TINY)


def forgetful(graph):
    """Drops the second moment's correction."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.div.Tensor):
        if node.args[0].target is torch.ops.aten.sqrt.default:
            node.replace_all_uses_with(node.args[0])
    return graph


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batches"), [(tiny, tokens), (Fitted, rows)])
def test_the_graph_run_node_by_node_trains_as_eager_does_to_the_bit(model, batches):
    for found in judged_steps(model(), batches(), passes=[updates_at_once], compiled=False):
        assert found.same_bits == found.tensors > 3, found
        assert 0 < found.error == found.eager_error < 1e-3


def test_it_draws_the_random_numbers_that_eager_draws():
    for found in judged_steps(Fitted(dropout=0.5), rows(), compiled=False):
        assert found.same_bits == found.tensors


def test_a_pass_that_is_wrong_is_seen():
    plain, passed = judged_steps(Fitted(), rows(), passes=[forgetful], compiled=False)
    assert plain.same_bits == plain.tensors
    assert passed.same_bits < passed.tensors and passed.error > 10 * passed.eager_error


@pytest.mark.slow
def test_inductors_code_for_it_is_as_near_to_float64_as_eager():
    *_, compiled = judged_steps(Fitted(2), rows(), passes=[updates_at_once])
    assert compiled.way == "compiled" and compiled.error < 4 * compiled.eager_error


def test_the_model_and_its_buffers_are_new_after_a_step_and_what_is_frozen_is_not():
    model = Fitted()
    before = copy.deepcopy(model.state_dict())
    step = whole_step(model, *rows()[0], compiled=False)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "nothing has run"
    loss = step(*rows()[0])
    changed = {name for name, value in model.state_dict().items() if not torch.equal(before[name], value)}
    assert changed == set(before) - {"scale"} and loss.ndim == 0 and not loss.requires_grad
    assert step.steps == 1 and "first moment of layers.0.weight" in step.titles.values()


def test_the_peak_is_that_of_values_between_the_first_that_holds_them_and_the_last_reader():
    from torch.fx.experimental.proxy_tensor import make_fx

    def chain(x):
        a = x + 1
        b = a.view(-1) * 2
        return (a + b.view_as(a)).sum()

    graph = make_fx(chain, tracing_mode="fake")(torch.ones(4, 8)).graph
    assert peak_nbytes(graph) == 3 * 4 * 8 * 4


def none_back(graph):
    graph.lint()


def without_an_input(graph):
    first = next(iter(graph.nodes))
    with graph.inserting_after(first):
        first.replace_all_uses_with(graph.call_function(torch.ops.aten.zeros.default, ([32, 32],)))
    graph.erase_node(first)
    return graph


def unused():
    model = Fitted()
    model.spare = nn.Parameter(torch.ones(2))
    return model


REFUSED = [
    (lambda x, y: whole_step(Fitted(), x, y, compiled=False)(x[:2], y[:2]), r"traced for .*\[4, 32\]"),
    (lambda x, y: whole_step(nn.Linear(32, 2), x, compiled=False), "one scalar"),
    (lambda x, y: whole_step(Fitted().requires_grad_(False), x, y), "no parameter .* gradient"),
    (lambda x, y: whole_step(unused(), x, y), "does not depend on spare"),
    (lambda x, y: whole_step(Fitted(), x, y, passes=[none_back]), "none_back returned a NoneType"),
    (lambda x, y: whole_step(Fitted(), x, y, passes=[without_an_input]), "without_an_input changed the inputs"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_does_not_fit_and_a_pass_that_returns_no_such_graph_are_told(call, said):
    with pytest.raises(ValueError, match=said):
        call(*rows()[0])


def test_the_rule_is_torchs_own_with_other_numbers_too():
    rule = AdamWRule(lr=0.1, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.3)
    (plain, _) = judged_steps(Fitted(1), rows(), rule=rule, compiled=False)
    assert plain.same_bits == plain.tensors
