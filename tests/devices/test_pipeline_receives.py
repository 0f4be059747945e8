"""Receives that wait: where torch posts them, what computes beside them, and what that costs."""

import pytest

from compile_lab._torch.distributed import pipeline_receives
from compile_lab.devices.pipeline import RECEIVES_LATE
from compile_lab.devices.pipeline_receives import covered, share_lost, slowed
from compile_lab.simulator.pipeline import SCHEDULES, simulate, table

AHEAD = [name for name in SCHEDULES if name not in RECEIVES_LATE]
HALVES = {"forward": 2.0, "input_grad": 2.0, "weight_grad": 2.0}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("schedule", AHEAD)
def test_what_a_rank_reads_from_another_is_posted_once_and_before_it_computes(schedule, ranks):
    orders, plain = pipeline_receives(schedule, ranks, 8), table(schedule, 2 * ranks, 8)
    home = {stage: rank for rank, order in enumerate(plain) for _, stage, _ in order}
    for rank, order in enumerate(orders):
        assert [tuple(name) for is_receive, *name in order if not is_receive] == plain[rank]
        posted = set()
        for is_receive, kind, stage, m in order:
            beside = stage - 1 if kind == "F" else stage + 1
            if is_receive:
                assert home[stage] != rank and (kind, stage, m) not in posted
                posted.add((kind, stage, m))
            elif kind != "W" and home.get(beside, rank) != rank:
                posted.remove(("F" if kind == "F" else "B", beside, m))
        assert not posted, "each is read"


def test_a_receive_waits_from_where_it_was_posted_until_its_sender_is_done():
    found = simulate("LoopedBFS", 4, 2, forward=[2.0, 3.0, 2.0, 2.0])
    shares = {str(action): share for action, share in covered(found)}
    # Rank 0 computes 0F0 [0, 2], 0F1 [2, 4], and then waits until rank 1 is done with 1F0 [2, 5]. torch posts that
    # receive behind 0F0, so 0F1 has it beside it all the time; the next one waits while 2F0 [5, 7] computes.
    assert shares["0F0"] == 0.0 and shares["0F1"] == 1.0 and shares["2F0"] == 1.0
    assert all(0 <= share <= 1 + 1e-12 for share in shares.values())


def test_what_a_waiting_receive_costs_is_found_again_in_what_it_slowed():
    plain = simulate("LoopedBFS", 4, 8, **HALVES)
    assert slowed(plain, 0.0) == plain
    found = slowed(plain, 0.2, receives=False)
    assert found.span < plain.span, "times that the receives are said to have lengthened, without them"
    after = slowed_by_hand(plain, 0.2)
    assert share_lost([after]) == pytest.approx(0.2, abs=0.02)
    again = slowed(after, 0.2)
    assert again.span == pytest.approx(after.span, rel=0.01)
    assert again.bubble_fraction == pytest.approx(after.bubble_fraction, abs=0.01)
    assert slowed(after, 0.2, receives=False).span == pytest.approx(plain.span, rel=0.01)
    assert share_lost([simulate("GPipe", 2, 4)]) is None


def slowed_by_hand(plain, lost):
    """``plain`` with each action as slow as the receives beside it make it."""
    found = plain
    for _ in range(60):
        single = {a[1:4]: HALVES_OF[a.kind] / (1 - lost * share) for a, share in covered(found)}
        found = simulate(plain.schedule, plain.stages, plain.microbatches, **HALVES, single=single)
    return found


HALVES_OF = {"F": 2.0, "B": 4.0}
