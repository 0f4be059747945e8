"""What readers explore at any value: the words agree with the simulator, and the scale serves many choices."""

import re

import pytest

from compile_lab.page.figures import Drawing
from compile_lab.simulator import explored_view
from compile_lab.simulator.pipeline import SCHEDULES, simulate

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
    assert f"takes {min(row[1] for row in table.rows):.4g} F, and its ranks wait" in said


def test_the_sentence_tells_what_speed_costs_in_memory():
    assert "GPipe takes as long; its fullest rank holds 8 instead of 4 micro-batches." in pipeline()[0]
    said = pipeline(schedule="ZBVZeroBubble")[0]
    assert "1F1B takes 29.4% longer; its fullest rank holds as many micro-batches, 4." in said
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
    assert table.rows[1][2] == f"{63 / (1024 + 63):.1%}" and "**1F1B**" in said


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"ranks": 0}, "ranks=0: it is a whole number, 1 or more"),
        ({"ranks": 3.5}, "ranks=3.5: it is a whole number"),
        ({"micro_batches": -1}, "micro_batches=-1: it is a whole number"),
        ({"ranks": 10**9}, "more than the 500,000"),
        ({"transfer": -0.5}, "the time of transfer is -0.5"),
        ({"backward": -2}, "the time of input_grad is -1"),
        ({"schedule": "DualPipeV", "ranks": 8}, "DualPipeV requires at least as many microbatches as stages"),
    ],
)
def test_what_the_simulator_refuses_is_refused_in_its_words(choice, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        pipeline(**choice)
