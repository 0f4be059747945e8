"""Compiled stages: which schedules run, and how often."""

import pytest

from chapters.where_to_compile import stages
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings

KEPT = compile_orders.recorded(recordings.load("compile_orders").result).schedules


@pytest.mark.slow
@pytest.mark.processes
def test_a_schedule_that_does_not_split_the_backward_runs_each_once():
    found = stages.run("1F1B")
    assert (found.outcome, found.backwards, found.once) == ("right", 8, 8)


@pytest.mark.processes
def test_one_that_does_is_refused():
    assert "donated buffers" in stages.run("ZBVZeroBubble").error


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"{kept.schedule}, {kept.way}")
def test_each_is_as_it_was_recorded(kept):
    found = stages.run(kept.schedule, kept.way)
    assert found.outcome[:80] == kept.outcome[:80]
    assert (found.backwards, found.matmuls, found.once) == (kept.backwards, kept.matmuls, kept.once)


@pytest.mark.slow
@pytest.mark.processes
def test_inductor_says_the_same_of_donated_buffers():
    assert "donated buffers" in stages.run("DualPipeV", backend="inductor").error
    assert stages.run("DualPipeV", stages.FREE, backend="inductor").outcome == "right"


@pytest.mark.processes
def test_a_backward_that_is_cut_in_two_computes_each_gradient_once():
    found = stages.run("ZBVZeroBubble", stages.CUT)
    assert (found.outcome, found.backwards, found.matmuls) == ("right", 0, found.matmuls_once)


@pytest.mark.slow
@pytest.mark.processes
def test_inductor_compiles_its_parts():
    found = stages.run("DualPipeV", stages.CUT, backend="inductor")
    assert (found.outcome, found.matmuls) == ("right", found.matmuls_once)


def test_a_rank_that_only_lost_its_partner_does_not_give_the_reason():
    assert stages._only_lost("RuntimeError: Connection closed by peer") and not stages._only_lost("donated buffers")
