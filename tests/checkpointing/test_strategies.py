"""Strategies leave loss and gradients alone; plans predict what the allocator gives out; limits are real."""

import functools

import pytest
import torch
from torch import nn

from chapters.shared import subjects
from compile_lab.aot.training import training_graphs
from compile_lab.checkpointing.cost import Subject, measured, measured_plan, reference
from compile_lab.checkpointing.plan import plans
from compile_lab.checkpointing.strategies import EVERY_LAYER, MATMULS_KEPT, NONE, segments_of
from compile_lab.eager.flops import work_of

pytestmark = pytest.mark.processes

LAYERS, DIM, ROWS = 4, 16, 64


@pytest.fixture(scope="module")
def subject():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Subject(subjects.deep_mlp(LAYERS, DIM), (subjects.rows(ROWS, DIM),), "cpu")
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def planned(subject):
    return {plan.budget: plan for plan in plans(subject.model, *subject.args, budgets=(1.0, 0.1, 0.0))}


def grads(model, fn, x, seed=0):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    fn(x).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("strategy", [*segments_of(LAYERS), MATMULS_KEPT], ids=lambda each: each.name)
def test_manual_strategies_give_the_same_gradients_with_dropout_too(strategy):
    model, x = subjects.deep_mlp(LAYERS, DIM, dropout=0.3), subjects.rows(ROWS, DIM)
    assert torch.equal(grads(model, strategy.applied(model), x), grads(model, model, x))


def test_a_checkpointed_layer_repeats_all_products_but_its_last(subject):
    product = 2 * ROWS * DIM * 4 * DIM
    plain = work_of(lambda: subject.step(subject.model)).flops
    assert plain == 3 * 2 * LAYERS * product
    for strategy in segments_of(LAYERS):
        twin = strategy.applied(subject.model)
        found = work_of(functools.partial(subject.step, twin)).flops
        assert found - plain == (2 * LAYERS - LAYERS // strategy.every) * product
    kept = work_of(lambda: subject.step(MATMULS_KEPT.applied(subject.model))).flops
    assert kept == plain


def test_an_eager_strategy_is_measured_as_it_is_predicted(subject):
    expected, noise = reference(subject)
    costs = [measured(subject, each, expected) for each in (NONE, EVERY_LAYER)]
    for cost, segments in zip(costs, (0, LAYERS), strict=True):
        # The generator's state, which no operation makes, is kept for each segment.
        assert cost.held_nbytes == cost.saved_nbytes + segments * torch.get_rng_state().nbytes
        assert cost.gradient_error == noise == 0
    assert costs[1].held_nbytes < costs[0].held_nbytes and costs[1].peak_nbytes < costs[0].peak_nbytes
    assert costs[1].recomputed > 0 == costs[0].recomputed


def test_plans_are_the_compilers_own(subject, planned):
    own = training_graphs(subject.model, *subject.args, memory_budget=0.1)
    assert planned[0.1].saved_nbytes == own.saved_nbytes
    assert {each.name for each in planned[0.1].graphs.recomputed} == {each.name for each in own.recomputed}


@pytest.mark.slow
def test_a_plan_holds_what_it_says_and_peaks_where_it_is_predicted(subject, planned):
    expected, _ = reference(subject)
    for plan in planned.values():
        cost = measured_plan(subject, plan, expected)
        assert cost.held_nbytes == plan.saved_nbytes + 4  # the loss
        assert 0 <= cost.peak_nbytes - cost.predicted_peak_nbytes <= 64
        assert cost.gradient_error < 1e-5


def test_a_parameter_that_gets_no_gradient_has_none_to_compare():
    class OneIsUnused(nn.Linear):
        def __init__(self):
            super().__init__(4, 1)
            self.unused = nn.Linear(4, 1)

    subject = Subject(OneIsUnused(), (torch.ones(4),), "cpu")
    gradients, _ = reference(subject)
    assert sorted(gradients) == ["bias", "weight"]
    assert measured(subject, NONE, gradients).gradient_error == 0.0
