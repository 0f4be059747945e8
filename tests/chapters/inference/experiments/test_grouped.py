"""The recordings of grouped products and of a call's cost: what fails is told, and the rest stands."""

import math

import pytest

from chapters.experiment import OUT_OF_TIME
from chapters.inference.experiments import grouped, overhead


def test_without_time_every_part_says_that_it_was_not_begun():
    kept = grouped.record("cpu", budget_s=0)
    assert kept["rows"] == [] and kept["matmul_tflop_per_s"] > 0
    assert {one["why"] for one in kept["stopped"]} == {OUT_OF_TIME}


def test_a_part_that_fails_keeps_its_reason_and_the_others_are_measured(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(grouped, "packaged", broken)
    monkeypatch.setattr(grouped.torch, "compile", broken)
    kept = grouped.record("cpu", list, budget_s=math.inf)
    assert {row["way"] for row in kept["rows"]} == {"loop", "grouped"} and len(kept["rows"]) == 4
    assert {one["way"]: one["why"] for one in kept["stopped"]} == dict.fromkeys(
        ("grouped, compiled", "max-autotune", "AOTInductor"), "RuntimeError: no compiler here"
    )
    assert all(row["error"] < 0.01 for row in kept["rows"])


@pytest.mark.slow
def test_a_calls_cost_is_recorded_with_its_line(monkeypatch):
    monkeypatch.setitem(overhead.GUARDED, "cpu", (1, 2, 3))
    kept = overhead.record("cpu", budget_s=0)
    assert {row["guards"] for row in kept["guards"]} > {0} and "us_per_guard" in kept["per_guard"]
    assert {one["stopped"] for one in kept["calls"]} == {OUT_OF_TIME}
