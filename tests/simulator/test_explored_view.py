"""What readers explore at any value: the words agree with the simulator, and the scale serves many choices."""

import re

import pytest
import torch

from compile_lab.page.figures import Drawing
from compile_lab.simulator import explored_view
from compile_lab.simulator.pipeline import SCHEDULES, simulate
from compile_lab.simulator.recommendation import recommend
from compile_lab.simulator.sharding import parameter_count
from mini_model.model import GPT2_124M, MiniGPT

CHOICE = {"schedule": "GPipe", "beside": "1F1B", "ranks": 4, "micro_batches": 8}
CHOICE |= {"backward": 2, "transfer": 0, "last_stage_longer_by": 0}


def pipeline(**choice):
    return explored_view.pipeline(**CHOICE | choice)


def end_of_axis(drawing: Drawing) -> float:
    return float(re.search(r">([\d.,]+) F</text>", drawing.svg)[1].replace(",", ""))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_schedules_stand_on_one_axis_with_their_costs(schedule):
    said, drawing, table = pipeline(schedule=schedule, beside="1F1B")
    parts = {"forward": 1 / SCHEDULES[schedule], "input_grad": 1 / SCHEDULES[schedule]}
    parts["weight_grad"] = parts["input_grad"]
    found = simulate(schedule, 4 * SCHEDULES[schedule], 8, **parts)
    assert table.rows[0][:3] == (schedule, pytest.approx(found.span), f"{found.bubble_fraction:.1%}")
    assert end_of_axis(drawing) == 36 and drawing.alt.count("Each rank waits") == len(table.rows)
    assert said.startswith(f"**{schedule}** takes as long as {found.span:.4g} forwards of a micro-batch (F), ")
    assert f"its ranks wait {found.bubble_fraction:.1%} of that" in said


def test_the_sentence_tells_what_speed_costs_in_memory():
    assert "1F1B takes as long; its fullest rank holds 4 instead of 8 micro-batches." in pipeline()[0]
    said = pipeline(schedule="ZBVZeroBubble")[0]
    assert "1F1B takes 29.4% longer; its fullest rank holds as many micro-batches, 4." in said
    said = pipeline(schedule="1F1B", beside="ZBVZeroBubble")[0]
    assert "ZBVZeroBubble takes 22.7% less; its fullest rank holds as many micro-batches, 4." in said
    assert pipeline(beside="GPipe")[0].endswith("a rank holds up to 8 micro-batches.")


def test_the_scale_stays_until_a_step_outgrows_it():
    ends = [end_of_axis(pipeline(micro_batches=m)[1]) for m in (1, 8, 9, 10, 15, 16, 24, 33)]
    assert ends == [36, 36, 36, 54, 54, 72, 108, 108]


@pytest.mark.parametrize("schedule", ["1F1B", "InterleavedZeroBubble", "DualPipeV"])
def test_the_last_stage_is_longer_by_the_same_however_many_stages_a_rank_holds(schedule):
    """With one micro-batch and nothing beside it: up and down once, and the head forward and backward."""
    if schedule == "DualPipeV":
        longer = pipeline(schedule=schedule, last_stage_longer_by=0.5)[2].rows[0][1]
        assert longer > pipeline(schedule=schedule)[2].rows[0][1]
        return
    spans = [pipeline(schedule=schedule, micro_batches=4, last_stage_longer_by=by)[2].rows[0][1] for by in (0, 0.5)]
    assert spans[1] - spans[0] == pytest.approx(4 * 0.5 * 3), "the slowest rank does it four times, three F each"


def test_what_is_too_much_to_see_is_told_and_still_counted():
    said, instead, table = pipeline(ranks=64, micro_batches=1024)
    assert instead == "262,144 actions on 64 ranks are more than can be seen in a picture. The numbers are exact:"
    assert table.rows[1][2] == f"{63 / (1024 + 63):.1%}" and "**GPipe**" in said


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"ranks": 0}, "ranks is 0; it must be a whole number from 1"),
        ({"ranks": 3.5}, "ranks is 3.5; it must be a whole number from 1"),
        ({"micro_batches": -1}, "micro_batches is -1; it must be a whole number from 1"),
        ({"ranks": 10**9}, "more than the 500,000"),
        ({"transfer": -0.5}, "transfer is -0.5; it must be a finite number from 0"),
        ({"backward": -2}, "backward is -2; it must be a finite number from 0"),
        ({"schedule": "DualPipeV", "ranks": 8}, "DualPipeV requires at least as many microbatches as stages"),
    ],
)
def test_what_the_simulator_refuses_is_refused_in_its_words(choice, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        pipeline(**choice)


# What a device holds and sends, which pattern to take

MACHINES = {"model": "7 B", "devices": 8, "sequences": 1, "card": 80}


def test_the_models_are_those_of_the_book():
    assert vars(explored_view.MODELS["124 M"]) == vars(GPT2_124M)
    sizes = {name: parameter_count(shape) for name, shape in explored_view.MODELS.items()}
    assert {name: f"{size:.1e}" for name, size in sizes.items()} == {
        "7 B": "6.9e+09",
        "124 M": "1.2e+08",
        "1.3 B": "1.4e+09",
        "70 B": "6.5e+10",
    }


def test_the_recommended_pattern_is_the_simulators():
    text, ranked, _ = explored_view.recommended(**MACHINES | {"devices": 64})
    best = recommend(explored_view.MODELS["7 B"], 64, 80e9, batch=64).choices
    assert text == f"**{best[0]}.**" and [row[0] for row in ranked.rows] == [each.plan.pattern for each in best]


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"devices": 0}, "devices is 0; it must be a whole number from 1"),
        ({"sequences": 1.5}, "sequences is 1.5; it must be a whole number from 1"),
        ({"card": 0}, "card=0: a card's memory in GB is more than 0"),
    ],
)
def test_machines_that_are_none_are_refused(choice, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        explored_view.recommended(**MACHINES | choice)


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


def test_the_axis_of_milliseconds_stays_until_a_step_outgrows_it():
    svgs = [explored_view.buckets(**WIRE | {"wire": wire})[1].svg for wire in (450, 100, 50, 12.5, 12, 5)]
    ends = [int(re.findall(r">(\d+) ms</text>", svg)[-1]) for svg in svgs]
    assert ends == [80, 80, 80, 150, 150, 300]


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"wire": 0}, "wire=0: something is sent"),
        ({"devices": 1}, "devices=1, wire"),
        ({"bucket": 0}, "a bucket holds more than 0 bytes"),
        ({"latency": -1}, "latency_ms is -1"),
    ],
)
def test_a_wire_that_is_none_is_refused(choice, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        explored_view.buckets(**WIRE | choice)
