"""What readers see of the simulator, where no chapter shows it: other values of an explorer, tables that differ."""

import pytest
import torch

from compile_lab.simulator import explored_view, patterns_view, pipeline_view
from compile_lab.simulator.collectives import Collective
from compile_lab.simulator.pipeline import Action, Timeline
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


def test_a_measured_timeline_need_not_start_at_nought():
    actions = (Action(0, "F", 0, 0, 1e6 + 5.0, 1e6 + 7.0), Action(0, "B", 0, 0, 1e6 + 8.0, 1e6 + 11.0))
    made = pipeline_view.bubbles(Timeline("GPipe", 1, 1, 1, actions, (1,)), unit="ms")
    assert made.table.rows == [(0, 0.0, 6.0, "16.7 %", 1, "0F0 0B0")]
    assert "6 ms in all" in made.legend


def test_formula_and_count_are_set_side_by_side_and_a_difference_shows():
    planned = (Collective("all_reduce", "replicate", 2, 1, 100),)
    table = patterns_view.matched([("ddp", 2, planned, planned), ("ddp", 2, planned, ())])
    assert [row[-1] for row in table.rows] == [True, False] and "1 equal" in table.folded


def test_the_smallest_model_is_gpt2():
    """A page's Python has no torch, and so the explorers have its sizes once more."""
    ours, book = (vars(each) for each in (explored_view.MODELS["124 M"], GPT2_124M))
    assert ours == {"expert_width": 0} | {name: book[name] for name in ours if name in book}


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
