"""What a DTensor's call costs more than a plain one, and the first more than the next."""

import pytest

from chapters.sharding_strategies.dispatch_cost import CALLS, dispatch_cost
from chapters.sharding_strategies.dispatch_cost_view import costs


def test_each_call_has_its_quartiles_and_its_row():
    rows = dispatch_cost(samples=5)
    assert [each.name for each in rows] == list(CALLS)
    for each in rows:
        for low, median, high in (each.plain_us, each.dtensor_us):
            assert 0 < low <= median <= high
        assert each.first_us > 0
    assert len(costs(rows).rows) == len(rows)


@pytest.mark.slow  # it looks at a clock
def test_a_placed_call_costs_more_and_the_first_most():
    assert all(each.added_us > 0 and each.first_us > each.dtensor_us[1] for each in dispatch_cost(samples=5))
