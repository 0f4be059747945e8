"""The recorded costs of patterns next to the plan, and how that is shown."""

from dataclasses import replace

import pytest
from pattern_rows import row

from chapters.four_patterns.experiments import patterns_view as view
from chapters.shared.experiments import patterns as pattern_cost
from compile_lab import recordings
from compile_lab.simulator.recommendation import Network


def test_the_plan_holds_what_the_allocator_of_a_gpu_counted():
    rows = pattern_cost.planned(recordings.load("patterns").result["rows"], Network())
    patterns = {"one device", "ddp", "fsdp", "tp", "tp+sp"}
    large = [each for each in rows if each["model"] == "1.3 B" and each["pattern"] in patterns]
    assert {each["pattern"] for each in large} == patterns
    for each in large:
        assert abs(view.memory_error(each)) < 0.01, each["pattern"]


def test_pairs_whose_measured_quartiles_are_apart_are_compared():
    def timed(pattern, low, high, planned_us):
        return row(
            pattern=pattern, ranks=2, low_us=low, median_us=(low + high) / 2, high_us=high, planned_us=planned_us
        )

    rows = [timed("tp", 100, 110, 7.0), timed("ddp", 105, 120, 1.0), timed("pp", 200, 210, 5.0)]
    assert view.pairs_in_order(rows) == {("tp on 2", "pp on 2"): False, ("ddp on 2", "pp on 2"): True}


def test_measured_patterns_come_in_the_measured_order():
    """In nine of ten pairs of all recordings, and of the cases from which no rate was taken."""
    eager, compiled = (recordings.load(name).result["rows"] for name in ("patterns", "patterns_compiled"))
    network = pattern_cost.calibrated(eager)
    rows = pattern_cost.planned(eager, network)
    rows += pattern_cost.planned(compiled, replace(network, host=pattern_cost.host_rates(compiled)))
    pairs = {name: view.pairs_in_order(each) for name, each in view.cases(rows).items()}
    everywhere = [right for found in pairs.values() for right in found.values()]
    untouched = [right for name, found in pairs.items() if "GPT-2" in name for right in found.values()]
    assert len(everywhere) > 60 and sum(everywhere) >= 0.9 * len(everywhere)
    assert len(untouched) > 20 and sum(untouched) >= 0.9 * len(untouched)


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
