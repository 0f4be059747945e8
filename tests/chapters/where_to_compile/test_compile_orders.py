"""The recording, read back."""

from chapters.where_to_compile import dtensors, stages
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings


def test_a_recording_has_every_schedule_program_and_backend():
    kept = compile_orders.recorded(recordings.load("compile_orders").result)
    assert [(each.schedule, each.way) for each in kept.schedules] == compile_orders.schedules()
    assert set(stages.SPLIT) < set(stages.SCHEDULES)
    assert {each.backend for each in kept.programs} == set(dtensors.BACKENDS)
    assert len(kept.programs) % len(dtensors.BACKENDS) == 0
    assert [each.hits > 0 for each in kept.loaded] == [True, False]
