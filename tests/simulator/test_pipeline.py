"""Pipelines on paper: against torch's own tables, and by hand where a hand can follow."""

import itertools
from collections import Counter

import pytest
from work import lines_run

from compile_lab._torch.distributed import pipeline_orders
from compile_lab.simulator.pipeline import SCHEDULES, simulate, table


def test_ranks_that_compute_at_once_add_up_to_their_work():
    found = simulate("ZBVZeroBubble", 8, 8, forward=3, transfer=0.5)
    assert sum(found.at_once.values()) == pytest.approx(1)
    working = sum(count * share for count, share in found.at_once.items()) / found.ranks
    assert working == pytest.approx(1 - found.bubble_fraction)


def test_a_single_action_may_take_its_own_time():
    found = simulate("GPipe", 2, 2, single={("F", 0, 1): 3.0, ("B", 1, 0): 0.5})
    taken = {str(action): action.end - action.start for action in found.actions}
    assert taken == {"0F0": 1, "0F1": 3, "1F0": 1, "1F1": 1, "0B0": 2, "0B1": 2, "1B0": 0.5, "1B1": 2}
    assert found.span == 1 + 3 + 1 + 0.5 + 2 + 2  # 0F0 0F1 1F1 1B0 1B1 0B1; 0B0 is done beside 1B1


def test_the_program_between_two_actions_takes_its_time_from_the_rank():
    """Rank 1 is free again 2 after an action; what it reads then is long there."""
    found = simulate("GPipe", 2, 2, forward=[1, 4], input_grad=0, weight_grad=3, between=2)
    assert [(a.start, a.end) for a in found.of(1)] == [(1, 5), (7, 11), (13, 16), (18, 21)]
    assert [(a.start, a.end) for a in found.of(0)] == [(0, 1), (3, 4), (16, 19), (21, 24)]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_written_out_tables_are_torchs(ranks):
    assert table("GPipe", ranks, 6) == pipeline_orders("GPipe", ranks, 6)
    theirs = pipeline_orders("1F1B", ranks, 6)
    # torch shows the last rank's forwards one too high; its runtime counts from 0.
    theirs[-1] = [(kind, stage, m - 1 if kind == "F" and theirs[-1][0][2] else m) for kind, stage, m in theirs[-1]]
    assert table("1F1B", ranks, 6) == theirs


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_micro_batch_passes_every_stage_in_order(schedule):
    ranks, microbatches = 4, 8
    found = simulate(schedule, ranks * SCHEDULES[schedule], microbatches, transfer=0.25)
    times = {(a.kind, a.stage, a.microbatch): a for a in found.actions}
    assert len(times) == len(found.actions)
    for stage in range(found.stages):
        for m in range(microbatches):
            forward = times["F", stage, m]
            backward = times.get(("B", stage, m)) or times["I", stage, m]
            weights = times.get(("W", stage, m))
            assert forward.end <= backward.start and (weights is None or backward.end <= weights.start)
            if stage:
                earlier = times["F", stage - 1, m]
                assert earlier.end + 0.25 * (earlier.rank != forward.rank) <= forward.start
    for rank in range(ranks):
        own = found.of(rank)
        assert all(one.end <= other.start for one, other in itertools.pairwise(own))
        kinds = Counter(action.kind for action in own)
        assert kinds["F"] == kinds["B"] + kinds["I"] and kinds["I"] == kinds["W"]


def test_twice_the_micro_batches_are_twice_the_work():
    few, many = (lines_run(lambda count=count: simulate("1F1B", 16, count)) for count in (64, 128))
    assert few < many < 2.2 * few
