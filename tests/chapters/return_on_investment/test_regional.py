"""Whole, by the block, by region: the same model, the same answer, its parameters shared."""

import json
from dataclasses import asdict

import pytest
from torch import nn

from chapters.return_on_investment.experiments import regional as recording
from chapters.shared import subjects
from compile_lab.modes.regional import WAYS, WayCost, WaysRace, compiled, repeated_blocks


def test_a_model_without_repeated_blocks_and_another_way_are_refused():
    with pytest.raises(ValueError, match="Linear repeats no block"):
        repeated_blocks(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="unknown way 'halves'; a model is compiled as eager, blocks"):
        compiled(subjects.deep_gpt(1, 16, 2, 8), "halves")


@pytest.mark.parametrize("way", ["eager", "blocks"])
def test_a_way_is_another_object_with_the_same_parameters(way):
    model = subjects.deep_gpt(2, 16, 2, 8)
    other = compiled(model, way)
    assert other is not model and [id(p) for p in other.parameters()] == [id(p) for p in model.parameters()]
    assert all(block._compiled_call_impl is None for block in model.blocks)


@pytest.mark.slow
def test_each_way_answers_as_eager_does_and_makes_the_graphs_that_it_must():
    model = subjects.deep_gpt(3, 16, 2, 8)
    given = subjects.tokens(model, 2)
    answers = []

    def step(called):
        loss = called(*given)
        loss.backward()
        answers.append(loss.item())
        model.zero_grad()

    race = WaysRace(model, step)
    for way in WAYS:
        race.enter(way)
    with pytest.raises(ValueError, match="no samples"):
        race.costs()
    race.run(samples=5)
    costs = race.costs()
    assert max(answers) - min(answers) < 1e-5
    graphs = {way: costs[way].graphs for way in WAYS}
    assert graphs["eager"] == 0 and graphs["blocks"] == graphs["whole"] == graphs["region"] == 1
    assert all(costs[way].compile_s > 0 and costs[way].payback.samples == 5 for way in WAYS[1:])
    assert WayCost.from_json(json.loads(json.dumps(asdict(costs["whole"])))) == costs["whole"]


def test_what_comes_too_late_is_told_and_nothing_is_begun():
    race = recording._compiled_race(recording._shape("2 layers", "cpu"), "cpu", ends=0.0)
    assert {found.stopped for found in race.costs().values()} == {"not begun: the time for compiling was used up"}
