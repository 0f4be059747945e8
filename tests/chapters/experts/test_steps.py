"""Which rank compiles when."""

import pytest

from chapters.experts import steps
from chapters.experts.experiments import expert_steps
from compile_lab import recordings

RECORDED = expert_steps.recorded(recordings.load("expert_steps").result)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("name", list(steps.CASES))
def test_each_case_is_as_it_was_recorded(name):
    found = steps.run(steps.CASES[name])
    kept = RECORDED.cases[name]
    assert [(list(each.new), each.breaks, list(each.guarded)) for each in found] == [
        (list(each.new), each.breaks, list(each.guarded)) for each in kept
    ]
    assert all(each.forward == 3 and each.backward == 2 and each.wrong_by < 1e-6 for each in found)


@pytest.mark.processes
@pytest.mark.slow
def test_a_rank_that_compiles_longer_than_the_others_wait_ends_them():
    said = steps.hang()
    assert any("Timed out" in each for each in said[1:]) and "[" not in "".join(said)
