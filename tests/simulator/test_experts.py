"""Expert parallel on paper: what each rank computes and sends."""

import pytest

from compile_lab.simulator import expert_loads
from compile_lab.simulator.experts import REMEDIES, popularity


@pytest.mark.parametrize("skew", [0.0, 0.7, 2.0, 8.0])
@pytest.mark.parametrize("choices", [1, 2, 8])
def test_a_token_has_its_number_of_experts_and_each_at_most_once(skew, choices):
    shares = popularity(skew, 16, choices)
    assert sum(shares) == pytest.approx(choices) and max(shares) <= 1
    assert shares == sorted(shares, reverse=True)


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
