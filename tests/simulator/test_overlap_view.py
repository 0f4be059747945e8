"""Overlap as a reader sees it: bars where the spans are, tables that agree with them, small pictures."""

import json
from dataclasses import replace

import pytest

from compile_lab.devices import view as devices_view
from compile_lab.devices.steps import StepRun
from compile_lab.simulator import overlap_view
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.wire import MB, Gradient, ddp_overlap


@pytest.fixture
def found():
    """Compute 12 to 14 and 15 to 18 ms after the start of the trace, the forward at 10; two lanes."""
    sent = [Transfer("all_reduce", 13, 16, 2_000_000, 0.0), Transfer("all_reduce", 17, 20, 4_000_000, 0.0, 1)]
    phases = {"forward": Span(10, 12), "gradients": Span(12, 18)}
    return overlap_of([Span(12, 14), Span(15, 18)], sent, phases)


def bars(figure):
    return {trace["name"]: trace for trace in figure.to_json()["data"]}


def test_bars_stand_where_the_spans_are_from_the_start_of_the_forward(found):
    drawn = bars(overlap_view.timeline(found))
    assert list(zip(drawn["compute"]["base"], drawn["compute"]["x"], strict=True)) == [(2, 2), (5, 3)]
    assert drawn["communication"]["base"] == [3, 7] and drawn["communication"]["x"] == [3, 3]
    assert drawn["communication"]["y"] == ["wire 1", "wire 2"]
    assert drawn["exposed"]["base"] == [4, 8] and drawn["exposed"]["x"] == [1, 2]
    (line,) = overlap_view.timeline(found).to_json()["layout"]["shapes"]
    assert line["x0"] == line["x1"] == 8
    assert "2 MB, 67 % hidden" in drawn["communication"]["hovertext"][0]


def test_waiting_is_drawn_in_the_row_of_its_wire(found):
    waited = [replace(each, waiting_ms=1.0 * at) for at, each in enumerate(found.intervals)]
    drawn = bars(overlap_view.timeline(overlap_of(found.compute, waited, found.phases)))
    assert drawn["waiting"]["y"] == ["wire 2"]
    assert (drawn["waiting"]["base"], drawn["waiting"]["x"]) == ([7], [1])
    assert drawn["communication"]["base"] == [3, 8] and drawn["communication"]["x"] == [3, 2]
    assert "waiting" not in bars(overlap_view.timeline(found))


def test_several_steps_stand_under_each_other_and_in_the_alternative(found):
    figure = overlap_view.timeline({"first": found, "second": found}, "caption")
    rows = figure.to_json()["layout"]["yaxis"]["categoryarray"]
    assert rows[:4] == ["first: compute", "first: wire 1", "first: wire 2", "first: exposed"]
    assert len(rows) == 8 and len(figure.to_json()["layout"]["shapes"]) == 2
    assert "second: 2 collectives take 6 ms, 3 ms of it exposed, in 8 ms" in figure.alt


def test_a_kind_is_told_apart_without_colours():
    patterns = [pattern for _, pattern in overlap_view.STYLES.values()]
    assert len(set(patterns)) == len(patterns)


def test_the_tables_say_what_the_bars_say(found):
    (row,) = overlap_view.summary({"": found}).rows
    assert row == ("one step", 2, 6.0, 5, 6, 3, "50 %", 8)
    first, second = overlap_view.collectives(found).rows
    assert first == ("all_reduce", 2.0, 3, 6, 3, "67 %") and second[-1] == "33 %"
    assert overlap_view.collectives(found, most=1).rows[-1][0] == "and 1 more"


def test_steps_of_ranks_are_told_by_the_slowest(found):
    runs = [StepRun(10, 9, 12, found), StepRun(11, 10, 13, found)]
    sent, alone = devices_view.steps(
        {"sent": runs, "alone": [StepRun(5, 4, 6, overlap_of([Span(0, 5)], [], alone=True))]}
    ).rows
    assert sent == ("sent", 2, "11.0", "10.0 to 13.0", "3.0 / 3.0", "50 % / 50 %")
    assert alone == ("alone", 0, "5.0", "4.0 to 6.0", None, None)


def test_a_picture_of_hundreds_of_spans_and_buckets_stays_small():
    sent = [Transfer("all_reduce", at + 0.2, at + 0.9, 1000, 0.0) for at in range(100)]
    many = overlap_of([Span(at / 50, at / 50 + 0.015) for at in range(5000)], sent)
    assert len(json.dumps(overlap_view.timeline(many).to_json())) < 15_000
    gradients = [Gradient(at / 4, MB) for at in range(1, 161)]
    modelled = ddp_overlap(gradients, 40, cap_nbytes=MB, bytes_per_ms=5 * MB)
    assert len(json.dumps(overlap_view.timeline(modelled).to_json())) < 20_000


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="at least one Overlap"):
        overlap_view.timeline({})
