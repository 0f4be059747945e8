"""What DTensors lose in compiled code."""

import pytest

from chapters.where_to_compile import dtensors
from chapters.where_to_compile.experiments import compile_orders
from compile_lab import recordings
from compile_lab.devices import ranks

KEPT = compile_orders.recorded(recordings.load("compile_orders").result).programs


@pytest.mark.processes
@pytest.mark.parametrize("backends", [["aot_eager"], pytest.param(["eager", "inductor"], marks=pytest.mark.slow)])
def test_each_program_is_as_it_was_recorded(backends):
    found = ranks.run(dtensors.on_rank, 2, backends, echo=False)[0]
    kept = [each for each in KEPT if each.backend in backends]
    assert [(each.program, each.backend, each.words) for each in found] == [
        (each.program, each.backend, each.words) for each in kept
    ]
