"""What readers explore at any value: the words agree with the simulator, and the scale serves many choices."""

import pytest
import torch

from compile_lab.simulator import explored_view, fit_view
from compile_lab.simulator.recommendation import recommend
from compile_lab.simulator.sharding import parameter_count
from mini_model.model import GPT2_124M, MiniGPT

CHOICE = {"schedule": "GPipe", "compared_with": "1F1B", "ranks": 4, "micro_batches": 8}
CHOICE |= {"backward": 2, "transfer": 0, "last_stage_longer_by": 0}


def pipeline(**choice):
    return explored_view.pipeline(**CHOICE | choice)


@pytest.mark.parametrize("schedule", ["1F1B", "InterleavedZeroBubble"])
def test_the_last_stage_is_longer_by_the_same_however_many_stages_a_rank_holds(schedule):
    spans = [pipeline(schedule=schedule, micro_batches=4, last_stage_longer_by=by)[2].rows[0][1] for by in (0, 0.5)]
    assert spans[1] - spans[0] == pytest.approx(4 * 0.5 * 3), "the slowest rank does it four times, three F each"


def test_what_is_too_much_to_see_is_told_and_still_counted():
    _, instead, table = pipeline(ranks=64, micro_batches=128)
    assert instead.startswith("32,768 actions on 64 ranks are more than can be seen")
    assert table.rows[1][2] == f"{100 * 63 / (128 + 63):.1f} %"


# What a device holds and sends, which pattern to take


def test_the_models_are_those_of_the_book_and_have_the_sizes_of_their_names():
    ours, book = (vars(each) for each in (explored_view.MODELS["124 M"], GPT2_124M))
    assert ours == {"expert_width": 0} | {name: book[name] for name in ours if name in book}
    models = explored_view.MODELS | fit_view.MODELS
    sizes = {name: parameter_count(shape) for name, shape in models.items()}
    assert {name: f"{size:.1e}" for name, size in sizes.items()} == {"124 M": "1.2e+08", "1.3 B": "1.4e+09"} | {
        "7 B": "6.9e+09", "13 B": "1.3e+10", "70 B": "6.5e+10", "405 B": "4.1e+11",
        "OLMoE 7 B": "6.9e+09", "Mixtral 47 B": "4.8e+10",
    }  # fmt: skip
    assert all(fit_view.MODELS[name] == shape for name, shape in explored_view.MODELS.items())


def test_the_recommended_pattern_is_the_simulators():
    text, ranked, _ = explored_view.recommended(model="7 B", devices=64, sequences=1, card=80)
    best = recommend(explored_view.MODELS["7 B"], 64, 80e9, batch=64).choices
    assert text == f"**{best[0]}.**" and [row[0] for row in ranked.rows] == [each.plan.pattern for each in best]


# Buckets and wire

WIRE = {"bucket": 25, "wire": 12.5, "devices": 8, "backward": 40, "latency": 0.05}


def test_the_gradients_are_those_of_gpt2_in_the_order_of_its_backward():
    with torch.device("meta"):
        model = MiniGPT(GPT2_124M)
    sizes = [each.nbytes for each in reversed(list(model.parameters()))]
    said, figure = explored_view.buckets(**WIRE | {"bucket": 1000})
    table = dict(zip(figure.table.columns, figure.table.rows[0], strict=True))
    assert table["collectives"] == 1 and table["MB"] == pytest.approx(sum(sizes) / 1e6, rel=1e-3)
    assert "in 1 collective." in said
    many = explored_view.buckets(**WIRE | {"bucket": 1e-6})[1]
    assert dict(zip(many.table.columns, many.table.rows[0], strict=True))["collectives"] == len(sizes)
