"""Pictures of a service: each request, mode and interval that is drawn is also said, and in the table."""

from dataclasses import replace

import pytest

from chapters.inference.roofline_view import roofline, turning
from chapters.inference.service_view import latencies, paid_back, phases
from compile_lab.inference.served import Served
from compile_lab.inference.service import Answer, PhaseCost, Request, Stream
from compile_lab.modes.cost import Spread
from compile_lab.simulator.serving import decode_work

USUAL, LONG = Request(1, 128, 16), Request(8, 512, 16)
WORK = decode_work(12, 768, 50257, 1024)


def stream(mode, usual_ms, first_ms, longer=3):
    answers = []
    for number, request in enumerate([USUAL] * 100 + [LONG] * longer, 1):
        compiling = mode != "eager" and number in (1, 101)
        answers.append(Answer(number, request, 1.0, first_ms if compiling else usual_ms, 2 * compiling))
    return Stream(mode, tuple(answers))


STREAMS = {
    "eager": stream("eager", 30.0, 30.0),
    "default": stream("default", 20.0, 9000.0),
    "max-autotune-no-cudagraphs": stream("max-autotune-no-cudagraphs", 21.0, 20_000.0, longer=0),
}


def cost(mode, batch, ms, phase="decode", **settings):
    return PhaseCost(phase, mode, Request(batch, 128, 1), Spread(ms, 0.9 * ms, 1.1 * ms), 2.0, 1, **settings)


COSTS = [
    *(cost("eager", batch, 2.0) for batch in (1, 128)),
    *(cost("reduce-overhead", batch, ms) for batch, ms in ((1, 0.2), (128, 1.5))),
    PhaseCost("decode", "default", Request(1, 128, 1), stopped="out of memory"),
]


def test_the_strip_shows_chosen_requests_of_the_usual_shape_and_all_of_others():
    drawing = latencies(STREAMS, "typed in")
    assert [row[0] for row in drawing.table.rows if row[2] == "eager"] == [1, 2, 3, 10, 100, 101, 102, 103]
    assert len([row for row in drawing.table.rows if row[2].startswith("max")]) == 5, "it answered no longer ones"
    assert drawing.svg.count("◆") == 3, "request 1 of both that compile, request 101 of one"
    assert "default: request 1 takes 9,001 ms, settled 21 ms; graphs compiled: 2 for request 1, 2 for request 101" in (
        drawing.alt
    )
    assert "batch 8, 512 tokens" in drawing.svg and "eager: request 1 takes 31 ms" in drawing.alt


def served(streams):
    return Served("toy", "a toy", USUAL, streams, (), {}, None, None, None, {})


def test_payback_is_drawn_beside_eager_and_for_a_search_beside_the_default():
    drawing = paid_back(served(STREAMS), "typed in")
    assert [row[:2] for row in drawing.table.rows] == [
        ["default", "eager"],
        ["max-autotune-no-cudagraphs", "eager"],
        ["max-autotune-no-cudagraphs", "default"],
    ]
    # A start that was timed once is uncertain by the factor of `simulator.payback.ONCE`.
    assert drawing.table.rows[0][-1] == "898 (449 to 1,796)" and drawing.table.rows[2][-1] == "never (never to never)"
    assert "max-autotune-no-cudagraphs against default: never" in drawing.alt and ">never<" in drawing.svg
    with pytest.raises(ValueError, match="no two streams"):
        paid_back(replace(served(STREAMS), usual=Request(2, 2, 2)))


def test_phases_have_a_bar_for_each_measured_shape_and_name_what_stopped():
    figure = phases(COSTS, "decode", "typed in")
    assert {trace["name"]: list(trace["x"]) for trace in figure.to_json()["data"]} == {
        "eager": [2.0, 2.0],
        "reduce-overhead": [0.2, 1.5],
    }
    assert "batch 1, default: out of memory" in figure.caption and len(figure.table.rows) == 4


def test_the_roofline_shows_both_limits_and_the_share_that_each_mode_reaches():
    figure = roofline(WORK, COSTS, 4e12, 8e14, "typed in")
    names = [trace["name"] for trace in figure.to_json()["data"]]
    assert names == ["least, to read", "least, to compute", "eager", "reduce-overhead"]
    assert [row[-1] for row in figure.table.rows] == ["4%", "36%", "63%", "85%"]
    assert "reading takes longer than computing" in figure.alt
    with pytest.raises(ValueError, match="no decode step"):
        roofline(WORK, [cost("eager", 1, 1.0, phase="prefill")], 4e12, 8e14)


def test_the_turning_point_is_said_where_there_is_one():
    assert turning(decode_work(12, 768, 50257, 16), 4e12, 8e14).startswith("From a batch of ")
    assert "With at most 33 slots" in turning(WORK, 4e12, 8e14)
