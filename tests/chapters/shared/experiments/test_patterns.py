"""The recorded costs of patterns: how ranks are joined, and the rates. Chapter 11 shows what the plan says of them."""

import math

import pytest

from chapters.shared.experiments import patterns as pattern_cost
from chapters.shared.experiments.patterns import PatternCase
from compile_lab import recordings
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.recommendation import Network

ALONE = {"model": "small", "sequences": 2, "ranks": 1, "pattern": "one device", "mode": None, "mesh": {}, "stopped": ""}
ALONE |= {"median_us": 1000.0, "low_us": 900.0, "high_us": 1200.0, "issued_us": 950.0}


def test_a_step_takes_as_long_as_its_slowest_rank():
    seen = {"losses": [2.0, 1.0], "overlap": None}
    ranks = [
        {"taken_us": [1.0, 5.0, 3.0], "issued_us": [1.0, 1.0, 1.0], "first_peak_nbytes": 8, "peak_nbytes": 7} | seen,
        {"taken_us": [2.0, 4.0, 3.0], "issued_us": [2.0, 2.0, 0.5], "first_peak_nbytes": 9, "peak_nbytes": 9} | seen,
    ]
    joined = pattern_cost._joined(ranks)
    assert (joined["median_us"], joined["issued_us"], joined["peak_nbytes"]) == (3.0, 2.0, [7, 9])
    assert joined["losses"] == [2.0, 1.0] and joined["sending_us"] is joined["exposed_us"] is None


def test_what_is_sent_is_the_wires_time_and_not_the_waiting_for_a_late_rank():
    early, late = (overlap_of([Span(0, 6)], [Transfer("all_reduce", start, 8.0, 100, 0.0)]) for start in (2.0, 5.0))
    assert pattern_cost._sent([early, late]) == {"sending_us": pytest.approx(3000), "exposed_us": pytest.approx(2000)}


def test_a_case_is_predicted_from_one_device_and_what_does_not_divide_is_not():
    cases = [PatternCase("small", 2, n, "tp", None) for n in (2, 4)]
    found = pattern_cost.predictions([ALONE], cases)
    assert list(found) == cases[:1] and found[cases[0]] > 1000
    assert pattern_cost.predictions([ALONE | {"stopped": "out of memory"}], cases) == {}


def test_what_does_not_divide_is_a_row_that_says_so():
    refused = pattern_cost._row("cpu", PatternCase("small", 2, 4, "tp", None), math.inf)
    assert refused["stopped"].startswith("heads=2 cannot be shared by tp=4 ranks") and "median_us" not in refused


def test_what_time_has_run_out_for_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(pattern_cost, "BUDGET_S", -1.0)
    rows = pattern_cost.record("cpu", cases={"cpu": [("small", 2)]})["rows"]
    assert len(rows) > 3 and {each["stopped"] for each in rows} == {pattern_cost.OUT_OF_TIME}


@pytest.mark.parametrize("missing", ["tp", "one device"])
def test_rates_of_a_program_need_both_patterns(missing):
    eager = recordings.load("patterns").result["rows"]
    with pytest.raises(ValueError, match=f"no row of '{missing}'"):
        pattern_cost.host_rates([each for each in eager if each["pattern"] != missing])


def test_the_assumed_rates_are_the_recorded_ones_rounded():
    found, assumed = pattern_cost.calibrated(recordings.load("patterns").result["rows"]), Network()
    for name in ("hidden", "repeated"):
        assert getattr(assumed, name) == pytest.approx(getattr(found, name), rel=0.05)
    for name, seconds in vars(assumed.host).items():
        assert seconds == pytest.approx(getattr(found.host, name), rel=0.05)
