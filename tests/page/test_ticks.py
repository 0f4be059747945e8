"""The names on a logarithmic axis: what was measured where that makes a scale, else round values, never too many."""

import random

import pytest

from compile_lab.page.ticks import MOST, ticks


@pytest.mark.parametrize("seed", range(20))
def test_names_are_few_and_within_the_values(seed):
    draw = random.Random(seed)
    values = [10 ** draw.uniform(-12, 12) for _ in range(draw.randint(1, 30))]
    for measured in (True, False):
        at = ticks(values, measured).get("tickvals", [])
        assert len(at) <= MOST and at == sorted(set(at)) and all(min(values) <= each <= max(values) for each in at)
    assert len(ticks([1.0, *values, 1e9])["tickvals"]) > 1
