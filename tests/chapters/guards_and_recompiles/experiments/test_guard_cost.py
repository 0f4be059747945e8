"""The cost of guards: what is measured is what is said to be measured."""

import pytest
import torch

from chapters.guards_and_recompiles.experiments.guard_cost import UNCHECKED, guard_cost


def test_each_way_makes_the_guards_it_says_and_the_stance_is_back_at_default_afterwards():
    rows = guard_cost(layers=(3,), samples=5)
    guards = {row["way"]: row["guards"] for row in rows}
    ways = "none", "on input tensors only", "not on torch's own modules", "all guards"
    none, inputs, own, every = (guards[way] for way in ways)
    assert none == 0 < inputs < own < every == guards[UNCHECKED]
    assert all(0 < row["low_us"] <= row["median_us"] <= row["high_us"] for row in rows)
    assert {row["parameters"] for row in rows} == {6}
    fn = torch.compile(lambda x, n: x * n, backend="eager")
    assert [fn(torch.ones(1), n).item() for n in (2, 3)] == [2.0, 3.0]


def test_quartiles_of_nothing_are_refused_before_anything_is_compiled():
    with pytest.raises(ValueError, match="samples=0: quartiles need at least 2"):
        guard_cost(samples=0)
