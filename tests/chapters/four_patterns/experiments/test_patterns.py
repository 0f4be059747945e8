"""The recorded costs of patterns beside the plan, and how that is shown."""

from dataclasses import replace

import pytest
from pattern_rows import row

from chapters.four_patterns.experiments import patterns_view as view
from chapters.shared.experiments import patterns as pattern_cost
from compile_lab import recordings
from compile_lab.simulator.recommendation import Network


@pytest.mark.parametrize("pattern", ["one device", "ddp", "fsdp", "tp", "tp+sp"])
def test_the_plan_holds_what_the_allocator_of_a_gpu_counted(pattern):
    rows = pattern_cost.planned(recordings.load("patterns").result["rows"], Network())
    large = [each for each in rows if each["pattern"] == pattern and each["model"] == "1.3 B"]
    assert large and all(abs(view.memory_error(each)) < 0.01 for each in large)


def test_pairs_whose_measured_quartiles_are_apart_are_compared():
    def timed(pattern, low, high, planned_us):
        return row(
            pattern=pattern, ranks=2, low_us=low, median_us=(low + high) / 2, high_us=high, planned_us=planned_us
        )

    rows = [timed("tp", 100, 110, 7.0), timed("ddp", 105, 120, 1.0), timed("pp", 200, 210, 5.0)]
    assert view.pairs_in_order(rows) == {("tp on 2", "pp on 2"): False, ("ddp on 2", "pp on 2"): True}
    (line,) = view.orders({"a case": rows}, {"a case"}).rows
    assert line[:4] == ("a case", False, "1 of 2", "tp on 2 is quicker than pp on 2")


def test_measured_patterns_come_in_the_measured_order():
    """In nine of ten pairs of all recordings, and of the cases from which no rate was taken."""
    eager, compiled = (recordings.load(name).result["rows"] for name in ("patterns", "patterns_compiled"))
    network = pattern_cost.calibrated(eager)
    rows = pattern_cost.planned(eager, network)
    rows += pattern_cost.planned(compiled, replace(network, host=pattern_cost.host_rates(compiled)))
    pairs = {name: view.pairs_in_order(each) for name, each in view.cases(rows).items()}
    everywhere = [right for found in pairs.values() for right in found.values()]
    foretold = [right for name, found in pairs.items() if "GPT-2" in name for right in found.values()]
    assert len(everywhere) > 60 and sum(everywhere) >= 0.9 * len(everywhere)
    assert len(foretold) > 20 and sum(foretold) >= 0.9 * len(foretold)


def test_tables_set_the_plan_beside_the_measurement():
    (alone,) = pattern_cost.planned([row()], Network(host=None))
    shown = view.steps([alone], "x", "recorded")
    assert list(shown.table.rows[0]) == ["one device", "1", "1", "0.9 to 1.2", "0%", "0.95"]
    axis = 1000 - 170 - 12  # of 1.5 ms
    assert f"M{170 + 0.9 / 1.5 * axis:.4g} 34L{170 + 1.2 / 1.5 * axis:.4g} 34" in shown.svg, "quartiles to scale"
    assert f"M{170 + 0.95 / 1.5 * axis:.4g} 4L" in shown.svg and "1 planned, 1 measured" in shown.alt
    assert view.peaks([alone], "x", "recorded").table.rows[0][0] == "one device"
    assert view.by_its_program(alone) and not view.by_its_program(row(issued_us=100.0))
    assert view.second_set(alone) == 2


def test_bandwidths_are_shown_by_size_and_held_against_the_assumed_rate():
    rows = [
        {"kind": kind, "nbytes": nbytes, "median_us": 40.0, "bus_gb_s": rate}
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "send")
        for nbytes, rate in ((2**10, 0.1), (2**18, 10.0), (2**26, 200.0))
    ]
    drawn = view.rates(rows, Network(), 2, "two")
    traces = drawn.to_json()["data"]
    names = ["all-reduce", "all-gather", "reduce-scatter", "send", "all-reduce, planned", "all-gather, planned"]
    assert [trace["name"] for trace in traces] == names
    planned_s = Network().links.seconds("all_reduce", 2, 2, 2**26)
    assert traces[0]["y"] == [0.1, 10.0, 200.0] and "40 to 40 µs" in drawn.caption
    assert traces[4]["y"] == pytest.approx([2**10 / 40e3, 2**18 / 40e3, 2**26 / planned_s / 1e9], rel=1e-5)
    assert list(drawn.table.rows[1]) == ["256 KiB", "10", "10", "10", "10"], "sizes with units, not powers of a MB"
    late = view.late(rows, Network(), 2, 2**26)
    assert late["all_reduce"] == pytest.approx(2**26 / 200e9 / planned_s - 1)


def test_what_was_foretold_stands_beside_what_was_measured_afterwards():
    rows = recordings.load("patterns", "NVIDIA H100 80GB HBM3").result["rows"]
    said = view.as_foretold(rows)
    assert len(said) == len([each for each in rows if each["ranks"] > 1]) == 15
    assert all(each["planned_us"] == each["predicted_us"] for each in said)
    assert view.as_foretold([row(), row(predicted_us=None), row(predicted_us=5.0, stopped="no")]) == []
    times = {"ranks": 2, "low_us": 90, "median_us": 100, "high_us": 110}
    planned = (("ddp", 99.0), ("ddp", 120.0), ("pp", 90.0))
    steps = [row(pattern=name, planned_us=each, **times) for name, each in planned]
    assert view.errors(steps) == "ddp −1% to +20%, pp −10%"


def test_on_two_and_four_gpus_what_waits_for_the_wire_was_foretold_within_a_tenth():
    said = view.as_foretold(recordings.load("patterns_wide").result["rows"])
    assert {each["ranks"] for each in said} == {2, 4}
    by_wire = [each for each in said if each["pattern"] in ("ddp", "fsdp", "hsdp")]
    assert len(by_wire) == 5 and all(abs(view.step_error(each)) < 0.1 for each in by_wire)
    assert all(each["sending_us"] > 0.2 * each["median_us"] for each in by_wire), "there the wire counts"
