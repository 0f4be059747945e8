"""Times of a call: what a sample is, and what is told of many."""

from types import SimpleNamespace

import pytest

from compile_lab.measure.timing import WARM_UP_CALLS, distinct, in_turn_us, samples_us


@pytest.mark.parametrize("from_idle", [False, True])
def test_a_call_is_measured_sample_by_sample(clock, from_idle):
    taken = samples_us(lambda: clock.passes(0.002), "cpu", samples=4, from_idle=from_idle)
    assert taken == pytest.approx([2_000] * 4)


def test_a_long_call_is_made_once_a_sample(clock):
    calls = []
    samples_us(lambda: calls.append(clock.passes(0.02)), "cpu", samples=3)
    assert len(calls) == WARM_UP_CALLS + 1 + 1 + 3  # to warm up, to estimate, one sample thrown away, three kept


def test_times_whose_quartiles_touch_are_not_told_apart():
    one, near, far = (SimpleNamespace(low_ms=low, high_ms=low + 1) for low in (1.0, 2.0, 2.1))
    assert not distinct(one, near) and not distinct(near, one)
    assert distinct(one, far) and distinct(far, one)


def test_calls_are_timed_side_by_side_round_by_round_in_changing_order(clock):
    said = []
    calls = {name: lambda name=name: (said.append(name), clock.passes(0.002)) for name in ("one", "other", "third")}
    taken = in_turn_us(calls, "cpu", rounds=6, sample_s=0.002)
    assert {name: len(times) for name, times in taken.items()} == {"one": 6, "other": 6, "third": 6}
    assert all(times == pytest.approx([2_000] * 6) for times in taken.values())
    rounds = [tuple(said[-18:][3 * at : 3 * at + 3]) for at in range(6)]
    assert all(set(each) == set(calls) for each in rounds) and len(set(rounds)) > 1
