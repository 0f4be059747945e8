"""The recordings of modes and gains: cases that are slow or die, and which are begun."""

import os
import signal

import pytest
import torch

from chapters.compile_modes.experiments import modes as mode_cases
from chapters.compile_modes.experiments.compile_gains import Gated, many_breaks, many_pointwise
from compile_lab.dynamo.tracing import trace


def scaled_softmax(x):
    return torch.softmax(x * 2, -1)


def test_without_time_left_no_case_is_begun():
    found = mode_cases.record("cpu", budget_s=0)
    assert [one["name"] for one in found["workloads"]] == list(mode_cases.SHOWN)
    assert set(mode_cases.SHOWN) == set(mode_cases.WORKLOADS)
    stopped = {case["stopped"] for one in found["workloads"] for case in one["cases"]}
    assert stopped == {"not begun: the recording's time was used up"}
    assert [case["mode"] for case in found["workloads"][0]["cases"]] == list(mode_cases.RECORDED)
    assert sorted(found["workloads"][0]["order"]) == sorted(mode_cases.RECORDED)


@pytest.mark.slow
def test_a_case_that_is_too_slow_or_dies_is_told_and_the_next_one_measured(tmp_path):
    worker = mode_cases.Worker("MiniGPT inference", "cpu")
    try:
        assert worker.cost("default", str(tmp_path), 0.1).stopped == "stopped after 0 s, its time limit"
        assert worker.cost("eager", str(tmp_path), 600).call.median_ms > 0
        os.kill(worker._child.process.pid, signal.SIGKILL)
        worker._child.process.wait(timeout=300)
        assert worker.together(["eager"], str(tmp_path)) == ({}, "its process came to an end (exit code -9)")
    finally:
        worker.stop()


@pytest.mark.slow
def test_modes_are_timed_side_by_side_from_what_their_folders_hold(tmp_path):
    x = torch.rand(64, 64)
    workload = mode_cases.Workload(lambda device: (scaled_softmax, (x,), lambda called: called(x)), "a toy", 60)
    given = workload, scaled_softmax, (x,), lambda called: called(x), "cpu"
    kind, found = mode_cases._answer(*given, "default", tmp_path)
    assert kind == "measured" and len(found.cold.runs_s) == 3
    assert found.warm.seconds > 0 and sum(any(each.rglob("*.so")) for each in tmp_path.iterdir()) == 3
    kind, together = mode_cases._together(*given, ["eager", "default"], tmp_path)
    assert kind == "measured" and list(together) == ["eager", "default"]
    assert together["default"]["call"].median_ms > 0 and together["default"]["host"].issued_us > 0


def test_the_cases_of_the_claims_are_what_they_say():
    x, w, b = torch.rand(4, 8), torch.rand(8, 8), torch.rand(8)
    whole, cut = (trace(fn, x, w, b) for fn in (many_pointwise, many_breaks))
    torch.testing.assert_close(whole.result, cut.result)
    assert len(whole.graphs) == 1 and len(cut.graphs) == 8
    module = Gated(8)
    torch.testing.assert_close(torch.jit.script(module)(x), module(x))
