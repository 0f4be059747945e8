"""The recorded costs of patterns next to the plan, and how that is shown."""

from dataclasses import replace

import pytest
from pattern_rows import row

from chapters.four_patterns.experiments import patterns_view as view
from chapters.shared.experiments import patterns as pattern_cost
from compile_lab import recordings
from compile_lab.simulator.recommendation import Network

RECORDED = [
    (name, device)
    for device in (None, "NVIDIA H100 80GB HBM3")
    for name in ("patterns", "patterns_compiled", "patterns_wide")
    if device or name != "patterns_wide"
]


def planned(name, device=None):
    """The rows of a recording beside their plans, by the rates of the H200s, eager or compiled."""
    eager, compiled = (recordings.load(each).result["rows"] for each in ("patterns", "patterns_compiled"))
    network = pattern_cost.calibrated(eager)
    if name == "patterns_compiled":
        network = replace(network, host=pattern_cost.host_rates(compiled))
    return pattern_cost.planned(recordings.load(name, device).result["rows"], network)


def test_the_plan_holds_what_the_allocator_of_a_gpu_counted():
    """On one, two and four GPUs, eager and compiled, within 2 %; but for a pipeline of tensor parallel."""
    rows = [each for recorded in RECORDED for each in planned(*recorded)]
    assert len(rows) > 75 and {each["ranks"] for each in rows} == {1, 2, 4}
    far = {(view.case(each), view.pattern(each)) for each in rows if abs(view.memory_error(each)) > 0.0201}
    assert far == {("1.6 B, wide, 2 sequences", "pp+tp on 4")}


def test_pairs_whose_measured_quartiles_are_apart_are_compared():
    def timed(pattern, low, high, planned_us):
        return row(
            pattern=pattern, ranks=2, low_us=low, median_us=(low + high) / 2, high_us=high, planned_us=planned_us
        )

    rows = [timed("tp", 100, 110, 7.0), timed("ddp", 105, 120, 1.0), timed("pp", 200, 210, 5.0)]
    assert view.pairs_in_order(rows) == {("tp on 2", "pp on 2"): False, ("ddp on 2", "pp on 2"): True}


def test_measured_patterns_come_in_the_measured_order():
    """In nine of ten pairs of the GPUs from which the rates are; and of others, from which nothing is, in 19 of 20."""
    for device, share, pairs in ((None, 0.9, 90), ("NVIDIA H100 80GB HBM3", 0.95, 100)):
        rows = [each for recorded in RECORDED if recorded[1] == device for each in planned(*recorded)]
        right = [ok for each in view.cases(rows).values() for ok in view.pairs_in_order(each).values()]
        assert len(right) > pairs and sum(right) >= share * len(right)


def test_steps_that_the_device_limits_are_planned_within_a_tenth():
    rows = [each for recorded in RECORDED for each in planned(*recorded) if each["ranks"] > 1]
    by_device = [each for each in rows if not view.by_its_program(each) and "tp" not in each["pattern"]]
    assert len(by_device) > 25
    near = [each for each in by_device if abs(view.step_error(each)) < 0.1]
    assert len(near) >= 0.9 * len(by_device)


def test_bandwidths_are_held_against_the_assumed_rate():
    rows = [
        {"kind": kind, "nbytes": nbytes, "median_us": 40.0, "bus_gb_s": rate}
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "send")
        for nbytes, rate in ((2**10, 0.1), (2**18, 10.0), (2**26, 200.0))
    ]
    traces = view.rates(rows, Network(), 2, "two").to_json()["data"]
    planned_s = Network().links.seconds("all_reduce", 2, 2, 2**26)
    assert traces[0]["y"] == [0.1, 10.0, 200.0]
    assert traces[4]["y"] == pytest.approx([2**10 / 40e3, 2**18 / 40e3, 2**26 / planned_s / 1e9], rel=1e-5)
    late = view.late(rows, Network(), 2, 2**26)
    assert late["all_reduce"] == pytest.approx(2**26 / 200e9 / planned_s - 1)


def test_what_was_predicted_stands_beside_what_was_measured_afterwards():
    rows = recordings.load("patterns", "NVIDIA H100 80GB HBM3").result["rows"]
    said = view.as_predicted(rows)
    assert len(said) == len([each for each in rows if each["ranks"] > 1]) == 15
    assert all(each["planned_us"] == each["predicted_us"] for each in said)
    assert view.as_predicted([row(), row(predicted_us=None), row(predicted_us=5.0, stopped="no")]) == []


def test_on_two_and_four_gpus_what_waits_for_the_wire_was_predicted_within_a_tenth():
    said = view.as_predicted(recordings.load("patterns_wide").result["rows"])
    assert {each["ranks"] for each in said} == {2, 4}
    by_wire = [each for each in said if each["pattern"] in ("ddp", "fsdp", "hsdp")]
    assert len(by_wire) == 5 and all(abs(view.step_error(each)) < 0.1 for each in by_wire)
    assert all(each["sending_us"] > 0.2 * each["median_us"] for each in by_wire), "there the wire counts"
