"""Which recorded pairs of patterns are compared, and rates beside the assumed one; chapter 11 has the rest."""

import pytest
from pattern_rows import row

from chapters.four_patterns.experiments import patterns_view as view
from compile_lab.simulator.recommendation import Network


def test_pairs_whose_measured_quartiles_are_apart_are_compared():
    def timed(pattern, low, high, planned_us):
        return row(
            pattern=pattern, ranks=2, low_us=low, median_us=(low + high) / 2, high_us=high, planned_us=planned_us
        )

    rows = [timed("tp", 100, 110, 7.0), timed("ddp", 105, 120, 1.0), timed("pp", 200, 210, 5.0)]
    assert view.pairs_in_order(rows) == {("tp on 2", "pp on 2"): False, ("ddp on 2", "pp on 2"): True}


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
