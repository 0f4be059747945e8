"""The recorded costs of patterns: how ranks are joined, what the plan says beside them, and how that is shown."""

from dataclasses import replace

import pytest

from compile_lab import recordings
from compile_lab.experiments import patterns as pattern_cost
from compile_lab.experiments import patterns_view as view
from compile_lab.experiments.patterns import PatternCase
from compile_lab.simulator.recommendation import Network


def row(**changed):
    alone = {"model": "small", "sequences": 2, "ranks": 1, "pattern": "one device", "mode": None, "stopped": ""}
    alone |= {
        "mesh": {},
        "median_us": 1000.0,
        "low_us": 900.0,
        "high_us": 1200.0,
        "issued_us": 950.0,
        "first_peak_nbytes": [9],
        "peak_nbytes": [7],
    }
    return alone | changed


def test_a_step_takes_as_long_as_its_slowest_rank():
    ranks = [
        {"taken_us": [1.0, 5.0, 3.0], "issued_us": [1.0, 1.0, 1.0], "first_peak_nbytes": 8, "peak_nbytes": 7},
        {"taken_us": [2.0, 4.0, 3.0], "issued_us": [2.0, 2.0, 0.5], "first_peak_nbytes": 9, "peak_nbytes": 9},
    ]
    joined = pattern_cost._joined(ranks)
    assert (joined["median_us"], joined["issued_us"], joined["peak_nbytes"]) == (3.0, 2.0, [7, 9])


def test_what_does_not_divide_is_a_row_that_says_so():
    refused = pattern_cost._row("cpu", PatternCase("small", 2, 4, "tp", None))
    assert refused["stopped"].startswith("heads=2 cannot be shared by tp=4 ranks") and "median_us" not in refused


def test_a_plan_takes_the_rate_of_one_device_and_leaves_out_what_stopped():
    two = {"ranks": 2, "pattern": "tp", "mesh": {"tp": 2}, "peak_nbytes": [7, 5]}
    alone, tp = pattern_cost.planned(
        [row(), row(**two), row(ranks=4, pattern="tp", stopped="it does not divide")], Network(host=None)
    )
    assert alone["planned_us"] == pytest.approx(1000)
    assert tp["planned_us"] > 1000, "it computes as much on each device, and waits for its messages"
    assert tp["turn_nbytes"] < tp["planned_nbytes"] < alone["planned_nbytes"] * 2


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


def test_rates_are_those_of_two_cases():
    eager = recordings.load("patterns").result["rows"]
    found = pattern_cost.calibrated(eager)
    of = {each["pattern"]: each for each in eager if (each["model"], each["sequences"]) == pattern_cost.ISSUED}
    assert 24 * found.host.layer_s == pytest.approx(1e-6 * of["one device"]["issued_us"])
    again = {each["pattern"]: each for each in pattern_cost.planned(of.values(), found)}
    for name in ("ddp", "fsdp", "tp", "tp+sp"):
        assert again[name]["planned_issue_us"] == pytest.approx(of[name]["issued_us"]), "what they were taken from"
    with pytest.raises(KeyError, match="tp"):
        pattern_cost.calibrated([each for each in eager if each["pattern"] != "tp"])


def test_the_assumed_rates_are_the_recorded_ones_rounded():
    found, assumed = pattern_cost.calibrated(recordings.load("patterns").result["rows"]), Network()
    for name in ("beside", "repeated"):
        assert getattr(assumed, name) == pytest.approx(getattr(found, name), rel=0.05)
    for name, seconds in vars(assumed.host).items():
        assert seconds == pytest.approx(getattr(found.host, name), rel=0.05)


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
    drawn = view.rates(rows, Network(), "two")
    traces = drawn.to_json()["data"]
    assert [trace["name"] for trace in traces] == ["all-reduce", "all-gather", "reduce-scatter", "send", "assumed"]
    assert traces[0]["y"] == [0.1, 10.0, 200.0] and traces[4]["y"] == [300.0] * 3 and "40 to 40 µs" in drawn.caption
    assert "at worst by all-reduce +50%, all-gather +50%" in drawn.caption
    assert list(drawn.table.rows[1]) == ["256 KiB", "10", "10", "10", "10"], "sizes with units, not powers of a MB"
    assert view.late(rows, Network(), 2**26)["send"] == pytest.approx(0.5)
