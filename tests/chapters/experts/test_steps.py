"""Which rank compiles when."""

import pytest

from chapters.experts import steps, view
from chapters.experts.experiments import expert_steps
from compile_lab import recordings

KEPT = recordings.load("expert_steps")
RECORDED = expert_steps.recorded(KEPT.result)


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


def test_the_recording_has_every_case_and_the_cures_hold():
    assert list(RECORDED.cases) == list(steps.CASES) and len(RECORDED.hang) == steps.N
    new = {name: [list(each.new) for each in found] for name, found in RECORDED.cases.items()}
    assert all(each == [1, 0, 0, 0] for each in new["the same, `dynamic=True`"])
    guarded = new["the same, guard collectives"]
    assert all(each == guarded[0] for each in guarded)
    assert len(view.compiled(RECORDED.cases, KEPT.provenance).rows) == len(steps.CASES)
