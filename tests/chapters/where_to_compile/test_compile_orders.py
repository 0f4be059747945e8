"""The recording, read back: it is whole, and what runs here is as it was recorded. The grid's tests are its orders."""

import pytest

from chapters.where_to_compile import artifacts, dtensors, stages
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings
from compile_lab.devices import ranks

KEPT = compile_orders.recorded(recordings.load("compile_orders").result)


def test_a_recording_has_every_schedule_program_and_backend():
    assert [(each.schedule, each.way) for each in KEPT.schedules] == compile_orders.schedules()
    assert set(stages.SPLIT) < set(stages.SCHEDULES)
    assert {each.backend for each in KEPT.programs} == set(dtensors.BACKENDS)


@pytest.mark.slow
@pytest.mark.processes
def test_a_rank_finds_the_same_code_in_anothers_artifacts_and_none_with_a_rank_in_it():
    same, own = ranks.run(artifacts.on_rank, 2, echo=False)[1]
    assert same.hits > 0 == same.misses and own.misses > 0 == own.hits
    assert same.right and own.right and same.nbytes > 10_000


@pytest.mark.processes
@pytest.mark.parametrize("backends", [["aot_eager"], pytest.param(["eager", "inductor"], marks=pytest.mark.slow)])
def test_dtensors_lose_in_compiled_code_what_was_recorded(backends):
    found = ranks.run(dtensors.on_rank, 2, backends, echo=False)[0]
    told = [[(each.program, each.backend, each.words) for each in several] for several in (found, KEPT.programs)]
    assert told[0] == [each for each in told[1] if each[1] in backends]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("kept", KEPT.schedules, ids=lambda kept: f"{kept.schedule}, {kept.way}")
def test_each_schedule_is_as_it_was_recorded(kept):
    found = stages.run(kept.schedule, kept.way)
    assert found.outcome[:80] == kept.outcome[:80]
    assert (found.backwards, found.matmuls, found.once) == (kept.backwards, kept.matmuls, kept.once)


@pytest.mark.slow
@pytest.mark.processes
def test_inductor_says_the_same_of_donated_buffers_and_compiles_its_parts():
    assert "donated buffers" in stages.run("DualPipeV", backend="inductor").error
    assert stages.run("DualPipeV", stages.FREE, backend="inductor").outcome == "right"
    found = stages.run("DualPipeV", stages.CUT, backend="inductor")
    assert (found.outcome, found.matmuls) == ("right", found.matmuls_once)


def test_a_rank_that_only_lost_its_partner_does_not_give_the_reason():
    assert stages._only_lost("RuntimeError: Connection closed by peer") and not stages._only_lost("donated buffers")
