"""Overlap as a reader sees it: bars where the spans are, tables that agree with them, small pictures."""

import re
from dataclasses import replace

import pytest

from compile_lab.page.figures import PALETTE
from compile_lab.simulator import overlap_view
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.wire import MB, Gradient, ddp_overlap

pytestmark = pytest.mark.processes


@pytest.fixture
def found():
    """Compute 12 to 14 and 15 to 18 ms after the start of the trace, the forward at 10; two lanes."""
    sent = [Transfer("all_reduce", 13, 16, 2_000_000, 0.0), Transfer("all_reduce", 17, 20, 4_000_000, 0.0, 1)]
    phases = {"forward": Span(10, 12), "gradients": Span(12, 18)}
    return overlap_of([Span(12, 14), Span(15, 18)], sent, phases)


def test_several_steps_stand_under_each_other_and_in_the_alternative(found):
    figure = overlap_view.timeline({"first": found, "second": found}, "caption")
    assert figure.svg.count(">wire 1<") == figure.svg.count(">exposed<") == 2 and figure.svg.index(">first<")
    assert "second: 2 collectives, 6 ms together, 3 ms of it exposed, in 8 ms" in figure.alt
    assert [row[0] for row in figure.table.rows] == ["first", "second"]


def test_the_tables_say_what_the_bars_say(found):
    (row,) = overlap_view.summary({"": found}).rows
    assert row == ("one step", 2, 6.0, 5, 6, 3, "50 %", 8)
    first, second = overlap_view.collectives(found).rows
    assert first == ("all_reduce", 2.0, 3, 6, 3, "67 %") and second[-1] == "33 %"
    assert overlap_view.collectives(found, most=1).rows[-1][0] == "and 1 more"


@pytest.mark.slow
def test_a_picture_of_hundreds_of_spans_and_buckets_stays_small():
    sent = [Transfer("all_reduce", at + 0.2, at + 0.9, 1000, 0.0) for at in range(100)]
    many = overlap_of([Span(at / 50, at / 50 + 0.015) for at in range(5000)], sent)
    assert len(overlap_view.timeline(many).svg) < 20_000
    gradients = [Gradient(at / 4, MB) for at in range(1, 161)]
    modelled = ddp_overlap(gradients, 40, cap_nbytes=MB, bytes_per_ms=5 * MB)
    assert len(overlap_view.timeline(modelled).svg) < 20_000


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="at least one Overlap"):
        overlap_view.timeline({})


def boxes(svg, colour):
    """The rectangles of one colour, as (left, width)."""
    found = re.findall(r"<rect x='([\d.]+)' y='[\d.]+' width='([\d.]+)'[^>]*?fill='([^']+)'", svg)
    return [(float(left), float(width)) for left, width, fill in found if fill == PALETTE[colour]]


def plain(svg, colour):
    """The bars of one colour that are in one shape with others, as (left, width)."""
    paths = re.findall(rf"<path d='([^']+)' fill='{PALETTE[colour]}'", svg)
    return [(float(x), float(w)) for path in paths for x, w in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", path)]


def test_lanes_stand_where_the_spans_are_and_what_is_exposed_is_hatched_and_named(found):
    svg = overlap_view.timeline(found, until_ms=17.5).svg  # 875 units: 50 for a millisecond, from the forward's start
    assert plain(svg, "grey") == [(210, pytest.approx(100, abs=0.1)), (360, 150)]
    assert boxes(svg, "blue") == [(260, 149), (460, 149)]
    assert plain(svg, "vermillion") == [(310, 49), (510, 99)]
    assert ">wire 2<" in svg and ">exposed<" in svg and ">2 ms<" in svg and ">17.5 ms<" in svg
    assert svg.count("stroke='#FFFFFF'") == 2, "each hatched"


def test_lanes_of_a_backward_leave_the_forward_out_and_mark_waiting(found):
    waited = overlap_of(found.compute, [replace(found.intervals[1], waiting_ms=1.0)], found.phases)
    made = overlap_view.timeline({"x": waited}, backward=True, until_ms=8.75)  # 100 units a millisecond
    assert plain(made.svg, "grey")[0][0] == 110 and "dashed" in made.legend
    assert "stroke-dasharray" in made.svg and boxes(made.svg, "blue")[0][0] == 110 + 100 * 6
    with pytest.raises(ValueError, match="end the axis later"):
        overlap_view.timeline(found, until_ms=5)
    with pytest.raises(ValueError, match="leave backward out"):
        overlap_view.timeline(replace(found, phases={}), backward=True)


def test_a_mark_across_short_computation_names_what_is_exposed_in_it():
    computed = [Span(0, 50), *(Span(50.5 + at, 50.7 + at) for at in range(50))]
    svg = overlap_view.timeline(overlap_of(computed, [Transfer("all_reduce", 40, 100, MB, 0.0)])).svg
    assert ">40 ms<" in svg and "exposed 40 of 60 ms" in svg


def test_a_short_collective_is_wide_enough_to_be_seen():
    short = overlap_of([Span(0, 1000)], [Transfer("all_reduce", 500, 500.01, 10, 0.0)])
    assert plain(overlap_view.timeline(short).svg, "blue") == [(547.5, 2)]


def test_what_is_exposed_at_the_start_is_not_told_over_the_rows_name():
    early = overlap_of([Span(1, 100)], [Transfer("all_gather", 0, 1, 1000, 0.0)])
    drawn = overlap_view.timeline(early).svg
    (at,) = re.findall(r"<text x='([\d.]+)'[^>]*>1 ms<", drawn)
    assert float(at) >= overlap_view._LEFT + overlap_view._LETTER * len("1 ms")
