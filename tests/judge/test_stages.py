"""The ladder of backends names the first that is wrong, and torch's bisector what it can inside of it."""

import pytest
import torch

from compile_lab.judge import climbed, stage_at_fault

pytestmark = pytest.mark.processes
INFINITE = torch.tensor([1.0, float("inf")])


def test_a_pass_over_the_graph_is_named():
    found = stage_at_fault(lambda x: x * 0, INFINITE)
    assert (found.backend, found.subsystem) == ("inductor", "joint_graph_passes") and "constant" in found.applied
    assert [*found.outcomes.values()] == ["right", "right", "right", "wrong"]
    assert "Inductor" in str(found) and "joint_graph_passes" in str(found)


def test_a_step_that_is_right_has_no_stage_at_fault():
    found = stage_at_fault(lambda x: x.sin() + 1, torch.ones(3))
    assert not found.backend and set(found.outcomes.values()) == {"right"} and str(found) == "right by every backend"


def test_a_stage_with_no_subsystem_is_told_by_its_backend():
    outcomes = {"eager": "wrong", "aot_eager": "wrong", "aot_eager_decomp_partition": "wrong", "inductor": "wrong"}
    found = climbed(outcomes.__getitem__)
    assert (found.backend, found.subsystem) == ("eager", "") and "Dynamo" in str(found)


def test_a_backend_that_raises_is_not_bisected():
    asked = []

    def outcome(backend):
        asked.append(backend)
        return "raises RuntimeError" if backend == "inductor" else "right"

    found = climbed(outcome)
    assert found.backend == "inductor" and not found.subsystem and len(asked) == 4
