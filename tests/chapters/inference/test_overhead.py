"""What a call costs beside its kernels: the guards are those made, and the line is the line."""

import pytest

from chapters.experiment import OUT_OF_TIME
from chapters.inference.overhead import CallCost, call_costs, guard_costs, per_guard

pytestmark = pytest.mark.processes


def test_more_modules_and_more_inputs_make_more_guards_and_the_filter_makes_none():
    found = {(cost.way, cost.modules, cost.inputs): cost for cost in guard_costs((1, 4), (1, 4), samples=5)}
    assert found["all guards", 1, 1].guards < found["all guards", 4, 1].guards
    assert found["all guards", 0, 1].guards < found["all guards", 0, 4].guards
    assert found["guards skipped", 4, 1].guards == found["all guards", 4, 1].guards
    assert all(cost.guards == 0 for (way, *_), cost in found.items() if way == "no guards made")
    assert all(0 < cost.low_us <= cost.median_us <= cost.high_us for cost in found.values())


def test_real_code_is_called_in_each_way_and_gives_eagers_answer():
    eager, compiled, skipped = call_costs((1,), samples=2)
    assert (eager.guards, compiled.guards) == (None, skipped.guards) and compiled.guards > 10
    assert not any(cost.stopped for cost in (eager, compiled, skipped))


def test_a_way_begun_too_late_says_so():
    (late,) = call_costs((1,), ("eager",), until=0.0)
    assert late.median_us is None and late.stopped == OUT_OF_TIME


def rows(*guards: int) -> list[CallCost]:
    made = [CallCost("all guards", n, 1, n, 5 + 0.25 * n, 5 + 0.2 * n, 5 + 0.3 * n) for n in guards]
    return [*made, *(CallCost("no guards made", n, 1, 0, 4.0, 4.0, 4.0) for n in guards)]


def test_a_line_through_what_guards_add():
    fit = per_guard(rows(10, 20, 40))
    assert fit.us_per_guard == pytest.approx(0.25) and fit.base_us == pytest.approx(1) and fit.r2 == pytest.approx(1)
