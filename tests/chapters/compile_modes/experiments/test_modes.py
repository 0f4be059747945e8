"""The recording of the modes: how long it may take is its device's."""

from chapters.compile_modes.experiments.modes import BUDGET_S, record


def test_a_device_has_its_budget():
    assert record("cpu", lambda steps: [])["budget_s"] == BUDGET_S["cpu"]
