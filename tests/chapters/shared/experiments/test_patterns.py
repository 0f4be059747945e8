"""The recorded costs of patterns: how ranks are joined, what the plan says of them, and how that is shown."""

import math

import pytest
from pattern_rows import row

from chapters.shared.experiments import patterns as pattern_cost
from chapters.shared.experiments.patterns import PatternCase
from compile_lab import recordings
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.recommendation import Network


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
    found = pattern_cost.predictions([row()], cases)
    assert list(found) == cases[:1] and found[cases[0]] > 1000
    assert pattern_cost.predictions([row(stopped="out of memory")], cases) == {}


def test_what_does_not_divide_is_a_row_that_says_so():
    refused = pattern_cost._row("cpu", PatternCase("small", 2, 4, "tp", None), math.inf)
    assert refused["stopped"].startswith("heads=2 cannot be shared by tp=4 ranks") and "median_us" not in refused


def test_what_time_has_run_out_for_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(pattern_cost, "BUDGET_S", -1.0)
    rows = pattern_cost.record("cpu", cases={"cpu": [("small", 2)]})["rows"]
    assert len(rows) > 3 and {each["stopped"] for each in rows} == {pattern_cost.OUT_OF_TIME}


def test_a_plan_takes_the_rate_of_one_device_and_leaves_out_what_stopped():
    two = {"ranks": 2, "pattern": "tp", "mesh": {"tp": 2}, "peak_nbytes": [7, 5]}
    alone, tp = pattern_cost.planned(
        [row(), row(**two), row(ranks=4, pattern="tp", stopped="it does not divide")], Network(host=None)
    )
    assert alone["planned_us"] == pytest.approx(1000)
    assert tp["planned_us"] > 1000, "it computes as much on each device, and waits for its messages"
    assert tp["planned_peak_nbytes"] == pattern_cost._planned(tp).peak_nbytes


def test_the_programs_rates_are_those_of_the_machine_that_was_recorded():
    """As much slower as it issues one device's layers, DTensor's too; of several cases the least, for with much work
    the program waits."""
    two = row(ranks=2, pattern="tp", mesh={"tp": 2}, sequences=4)
    layer_us = 1e6 * Network().host.layer_s
    slow, waiting = row(issued_us=2 * 3 * layer_us), row(issued_us=2 * 9 * layer_us, sequences=4)
    issued = [
        pattern_cost.planned([*alone, two], Network())[-1]["planned_issue_us"]
        for alone in ([waiting, row(issued_us=2 * layer_us)], [waiting, slow], [waiting])
    ]
    assert issued[1] == pytest.approx(3 * issued[0]) and issued[2] == pytest.approx(9 * issued[0])


def test_rates_are_those_of_the_cases_in_which_they_weigh_most():
    eager = recordings.load("patterns").result["rows"]
    found = pattern_cost.calibrated(eager)
    few = [each for each in eager if (each["model"], each["sequences"]) in pattern_cost.ISSUED]
    alone = [each["issued_us"] for each in few if each["pattern"] == "one device"]
    assert (6 + 24 + 12) * found.host.layer_s == pytest.approx(1e-6 * sum(alone))
    tp = [each["issued_us"] for each in few if each["pattern"] == "tp"]
    assert (6 + 24 + 12) * found.host.tp_layer_s == pytest.approx(1e-6 * (sum(tp) - sum(alone)))
    for missing in ("tp", "one device"):
        with pytest.raises(ValueError, match=f"no row of '{missing}'"):
            pattern_cost.host_rates([each for each in eager if each["pattern"] != missing])


def test_the_assumed_rates_are_the_recorded_ones_rounded():
    found, assumed = pattern_cost.calibrated(recordings.load("patterns").result["rows"]), Network()
    for name in ("hidden", "repeated"):
        assert getattr(assumed, name) == pytest.approx(getattr(found, name), rel=0.05)
    for name, seconds in vars(assumed.host).items():
        assert seconds == pytest.approx(getattr(found.host, name), rel=0.05)
