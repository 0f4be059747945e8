"""Pipelines on paper: against the formula, against torch's own tables, and by hand where a hand can follow."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from work import lines_run

from compile_lab._torch.distributed import pipeline_orders
from compile_lab.simulator.pipeline import SCHEDULES, closed_form, simulate, table, timeline_of

FUSED = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS")
"""Those whose backward is one action."""


@pytest.mark.parametrize("schedule", FUSED)
@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 4), (2, 8), (4, 8), (4, 32), (16, 32), (32, 128)])
def test_the_bubble_is_the_formulas(schedule, ranks, microbatches):
    stages = ranks * SCHEDULES[schedule]
    formula = closed_form(schedule, stages, microbatches)
    found = simulate(schedule, stages, microbatches, forward=3, input_grad=4, weight_grad=2)
    work = found.span * ranks - sum(found.busy)
    assert Fraction(work) / Fraction(found.span * ranks) == formula, "exactly, with whole numbers as times"
    assert found.bubble_fraction == pytest.approx(float(formula))


def test_naive_pipelining_keeps_one_rank_busy():
    assert simulate("GPipe", 4, 1).at_once == pytest.approx({0: 0, 1: 1, 2: 0, 3: 0, 4: 0})


def test_ranks_that_compute_at_once_add_up_to_their_work():
    found = simulate("ZBVZeroBubble", 8, 8, forward=3, transfer=0.5)
    assert sum(found.at_once.values()) == pytest.approx(1)
    working = sum(count * share for count, share in found.at_once.items()) / found.ranks
    assert working == pytest.approx(1 - found.bubble_fraction)


def test_one_forward_one_backward_by_hand():
    found = simulate("1F1B", 2, 2, input_grad=0.5, weight_grad=0.5)
    said = [[(str(a), a.start, a.end) for a in found.of(rank)] for rank in range(2)]
    assert said == [
        [("0F0", 0, 1), ("0F1", 1, 2), ("0B0", 3, 4), ("0B1", 5, 6)],
        [("1F0", 1, 2), ("1B0", 2, 3), ("1F1", 3, 4), ("1B1", 4, 5)],
    ]
    assert found.peak_activations == (2, 1)


def test_a_transfer_delays_what_comes_from_another_rank_only():
    slow = simulate("GPipe", 2, 1, transfer=10)
    assert slow.span == pytest.approx(1 + 10 + 1 + 2 + 10 + 2)
    assert simulate("GPipe", 1, 4, transfer=10).span == simulate("GPipe", 1, 4).span


def test_without_prefetch_a_rank_waits_for_each_transfer():
    """Rank 1 is the slow one: what it reads is there long before it is free, unless it must ask for it first."""
    slow_end = {"forward": [1, 10], "input_grad": 0, "weight_grad": 0, "transfer": 2}
    begun = [a.start for a in simulate("GPipe", 2, 3, **slow_end).of(1) if a.kind == "F"]
    assert begun == [3, 13, 23]
    asked = [a.start for a in simulate("GPipe", 2, 3, **slow_end, prefetch=False).of(1) if a.kind == "F"]
    assert asked == [3, 15, 27]


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


def test_dualpipev_sends_a_forward_of_a_pair_after_its_backward():
    """torch makes one action of the two, and sends when it is over: the next rank waits for both."""
    found = simulate("DualPipeV", 8, 8)
    times = {(a.kind, a.stage, a.microbatch): a for a in found.actions}
    pair = times["F", 6, 4], times["B", 1, 0]
    assert pair[0].end == pair[1].start and pair[0].rank == pair[1].rank == 1
    assert times["F", 7, 4].start >= pair[1].end


@pytest.mark.parametrize("schedule", ["1F1B", "Interleaved1F1B", "InterleavedZeroBubble"])
def test_a_schedule_written_by_hand_is_carried_out_as_a_known_one(schedule):
    known = simulate(schedule, 4 * SCHEDULES[schedule], 8, forward=2, transfer=0.5)
    by_hand = timeline_of(table(schedule, known.stages, 8), forward=2, transfer=0.5, name=schedule)
    assert by_hand == known


F, B = "F", "B"
RIGHT = [[(F, 0, 0), (B, 0, 0)], [(F, 1, 0), (B, 1, 0)]]


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ([RIGHT[0], RIGHT[1][:1]], "I of stage 1 for micro-batch 0 is there 0 times"),
        ([RIGHT[0] * 2, RIGHT[1]], "F of stage 0 for micro-batch 0 is there 2 times"),
        ([RIGHT[0], [*RIGHT[1], ("W", 1, 0)]], "a half next to its whole"),
        ([[(F, 0, 0), (B, 1, 0)], [(F, 1, 0), (B, 0, 0)]], r"stage 0 is on ranks \[0, 1\]"),
        ([RIGHT[0], RIGHT[1][::-1]], "B of stage 1 for micro-batch 0 comes before its own F"),
        ([[(F, 0, 0), (B, 0, 0), (F, 2, 0), (B, 2, 0)], RIGHT[1]], "deadlock: ranks"),
    ],
)
def test_orders_that_are_no_schedule_are_refused(orders, said):
    assert timeline_of(RIGHT).span == 6
    with pytest.raises(ValueError, match=said):
        timeline_of(orders)


def test_the_slowest_stage_sets_the_pace():
    """Far from its ends, a pipeline is as slow as its slowest stage; the others wait beside it."""
    m = 100
    found = simulate("1F1B", 4, m, forward=[1, 1, 2, 1], input_grad=0, weight_grad=0)
    assert found.span == 1 + 1 + 2 * m + 1
    assert found.busy == (m, m, 2 * m, m)


def test_what_is_held_counts_whole_ranks():
    assert simulate("1F1B", 4, 8).held_microbatches == (4, 3, 2, 1)
    interleaved = simulate("Interleaved1F1B", 8, 8)
    assert interleaved.held_microbatches == tuple(peak / 2 for peak in interleaved.peak_activations)
    said = str(simulate("ZBVZeroBubble", 8, 8)), str(simulate("1F1B", 4, 8))
    assert all(each.endswith("a rank holds at most 4 micro-batches") for each in said), "one unit for one stage and two"


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
            weights = times.get(("W", stage, m), backward)
            assert forward.end <= backward.start and backward.end <= max(weights.start, backward.end)
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
