"""Compiled stages: each schedule is as it was recorded; Inductor agrees."""

import pytest

from chapters.where_to_compile import stages
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings

KEPT = compile_orders.recorded(recordings.load("compile_orders").result).schedules


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


@pytest.mark.slow
@pytest.mark.processes
def test_inductor_compiles_its_parts():
    found = stages.run("DualPipeV", stages.CUT, backend="inductor")
    assert (found.outcome, found.matmuls) == ("right", found.matmuls_once)


def test_a_rank_that_only_lost_its_partner_does_not_give_the_reason():
    assert stages._only_lost("RuntimeError: Connection closed by peer") and not stages._only_lost("donated buffers")
