"""Drawings of rulings: what is drawn is what a rank holds."""

import re

import pytest

from chapters.sharding_strategies.dtensor_view import who_holds_what
from compile_lab.devices.dtensor import Ruling
from compile_lab.simulator.collectives import Collective

GATHER = Collective("all_gather", "world", 2, 1, 4_000)
PAID = Ruling("paid", sent=(GATHER,), out=("R",))


def rects(svg, title):
    found = re.findall(r"<rect x='([\d.]+)' y='([\d.]+)' width='([\d.]+)' height='([\d.]+)'[^>]*><title>([^<]*)<", svg)
    return [tuple(map(float, each[:4])) for each in found if each[4] == title]


def test_a_rank_holds_its_share_of_the_rows_or_columns():
    drawn = who_holds_what("softmax(x, 0)", [(8, 4)], ["S(0)"], PAID).svg
    ((_, top0, width, height),) = rects(drawn, "rank 0 holds S(0)")
    ((_, top1, _, _),) = rects(drawn, "rank 1 holds S(0)")
    assert width == 2 * height and top1 == pytest.approx(top0 + height)
    ((_, _, width, height),) = rects(who_holds_what("f(x)", [(8, 4)], ["S(1)"], PAID).svg, "rank 0 holds S(1)")
    assert height == 2 * width


def test_a_partial_value_and_a_replica_are_whole_and_told_apart():
    drawn = who_holds_what("f(x, y)", [(4, 4)] * 2, ["P(sum)", "R"], PAID, 4).svg
    ((_, _, width, height),) = rects(drawn, "rank 3 holds P(sum)")
    assert width == height and drawn.count("Σ") == 4


def test_the_drawing_says_what_came_of_it_and_what_was_sent():
    drawing = who_holds_what("softmax(x, 0)", [(8, 4)], ["S(0)"], PAID)
    assert "right, and paid for; 1 × all_gather, 2 kB a rank" in drawing.svg
    assert "softmax(x, 0) of inputs placed S(0) on 2 ranks: paid" in drawing.alt and "labelled R" in drawing.alt
    wrong = Ruling("wrong", "label", "R of (8, 4), and ranks hold (4, 4)", out=("R",))
    drawn = who_holds_what("f", [(8, 4)], ["S(0)"], wrong).svg
    assert "wrong, without an error: its label; nothing is sent" in drawn and drawn.count("≠") == 2
    assert "R of (8, 4), and ranks hold (4, 4)" in drawn
    refused = who_holds_what("f", [(8,)], ["S(0)"], Ruling("refused", detail="aten.f.default"))
    assert "after" not in refused.svg and "refused" in refused.legend


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="ranks is 5; it must be a whole number from 2 to 4"):
        who_holds_what("f", [(8,)], ["R"], PAID, 5)
    with pytest.raises(ValueError, match="2 shapes and 1 placements"):
        who_holds_what("f", [(8,), (8,)], ["R"], PAID)
