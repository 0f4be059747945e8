"""Expert parallel on paper: what each rank computes and sends."""

from itertools import chain

import pytest

from compile_lab.simulator import expert_loads
from compile_lab.simulator.experts import REMEDIES, experts_by_rank, popularity


@pytest.mark.parametrize("skew", [0.0, 0.7, 2.0, 8.0])
@pytest.mark.parametrize("choices", [1, 2, 8])
def test_a_token_has_its_number_of_experts_and_each_at_most_once(skew, choices):
    shares = popularity(skew, 16, choices)
    assert sum(shares) == pytest.approx(choices) and max(shares) <= 1
    assert shares == sorted(shares, reverse=True)


def test_one_choice_is_the_weights():
    assert popularity(1.0, 2, 1) == pytest.approx([2 / 3, 1 / 3])
    assert popularity(1.0, 4, 4) == [1.0] * 4


@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_no_row_is_lost_unseen(ranks, remedy):
    loads, dropped = expert_loads(1.2, ranks, remedy=remedy)
    kept = sum(each.own + each.received for each in loads) / ranks
    assert kept + dropped == pytest.approx(1)
    assert sum(each.dispatched for each in loads) == pytest.approx(sum(each.received for each in loads))
    if remedy == "capacity 1.25":
        assert all(each.computed == pytest.approx(1.25) for each in loads) and dropped > 0
    else:
        assert dropped == pytest.approx(0) and all(each.padding == 0 for each in loads)


def test_the_hot_rank_dispatches_least_and_sends_most():
    loads, _ = expert_loads(1.0, 4)
    assert loads[0].dispatched == min(each.dispatched for each in loads)
    assert loads[0].sent == max(each.sent for each in loads)


def test_hot_with_cold_is_fairer():
    fullest = [max(each.computed for each in expert_loads(1.0, 4, remedy=remedy)[0]) for remedy in REMEDIES[:2]]
    assert fullest[1] < fullest[0] / 2
    assert sorted(chain(*experts_by_rank(8, 4, True))) == list(range(8))
    assert experts_by_rank(8, 2, False) == [[0, 1, 2, 3], [4, 5, 6, 7]]
