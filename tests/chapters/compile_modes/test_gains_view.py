"""Gains as pictures: a bar is a gain that can be told from noise, and the busy time is what was seen."""

from dataclasses import asdict

import pytest

from chapters.compile_modes import gains_view
from compile_lab import recordings
from compile_lab.modes.cost import Comparison, ModeCost, Spread, compared
from compile_lab.modes.cuda_graphs import Launches


def cost(mode, median_ms, spread=0.01, gpu_ms=1.0):
    call = Spread(median_ms, median_ms * (1 - spread), median_ms * (1 + spread))
    return ModeCost(mode, call, launches=Launches(10, gpu_ms, 10, 0, 0.5))


def case(what, **costs):
    return {"case": "fn", "what": what, "costs": {name: asdict(each) for name, each in costs.items()}}


def test_a_gain_is_a_bar_only_where_quartiles_are_apart():
    cases = [
        case("small", eager=cost("eager", 2.0), default=cost("default", 1.0)),
        case("large", eager=cost("eager", 2.0), default=cost("default", 1.99)),
        case("odd", eager=cost("eager", 2.0), default=ModeCost("default", stopped="refused")),
    ]
    figure = gains_view.gained(cases, "here")
    assert "default 2.00 on small" in figure.alt and "default on large cannot be told from eager" in figure.alt
    assert [row[3] for row in figure.table.rows] == ["1.00×", "2.00×", "1.00×", "not told apart", "1.00×", None]
    assert [list(trace["x"]) for trace in figure.to_json()["data"]] == [[2.0]]


def test_ratios_of_a_recorded_case():
    found = case(
        "small", eager=cost("eager", 2.0), default=cost("default", 1.0), other=ModeCost("o", stopped="refused")
    )
    assert gains_view.ratio(found) == 2 and gains_view.ratio(found, "eager", of="default") == 0.5
    assert gains_view.ratio(found, "other") is None
    assert gains_view.told(found) == "2.00×" and gains_view.told(found, "other") == "not measured"


def test_a_call_is_divided_into_what_the_gpu_works_and_waits():
    costs = {"eager": cost("eager", 4.0), "default": cost("default", 2.0), "reduce-overhead": cost("r", 0.9)}
    found = Comparison("made up", "a workload", costs, "typed in")
    figure = gains_view.busy([found])
    work, wait = (trace["x"] for trace in figure.to_json()["data"])
    assert work == [25, 25, 22.5], "the profiler saw more than the call took: all of it is busy"
    assert wait == [75, 25, 0] and figure.table.rows[1][-2:] == [1.0, 2.0]
    assert "made up: eager: busy 25, idle 75" in figure.alt


@pytest.mark.parametrize("name", ["GPT-2 inference, batch 32", "MiniGPT inference"])
def test_recorded_calls_are_divided_whole(name):
    one = compared(recordings.load("modes"))[name]
    work, wait = (trace["x"] for trace in gains_view.busy([one]).to_json()["data"])
    assert work[0] + wait[0] == pytest.approx(100, abs=0.2)


def test_products_with_two_vocabularies_stand_side_by_side():
    found = recordings.load("compile_gains")
    figure = gains_view.heads(found.result["vocabulary"], found.provenance)
    assert "the head alone, 50,257 words: 26.7 ms eager, 4.29 ms compiled" in figure.alt
    assert len(figure.table.rows) == 4 and figure.table.rows[2][-1] == "6.21×"
