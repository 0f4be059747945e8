"""Marks: what a row becomes, what stands for it in words and as a table, and what no axis can hold."""

import re

from compile_lab.page import Series, bars, dots
from compile_lab.page.marks import Axis, Cell, Line, Node, Row, Segment, cells, dotted, lines, nodes, segments
from compile_lab.page.marks.common import short

STEP = [Row("eager", {"forward": 3.0, "backward": 6.0}), Row("compiled", {"forward": 2.0})]


def places(picture, look):
    """(left, width) of everything that has this class."""
    found = re.findall(rf"class='{look}[^']*' style='left:([\d.]+)%;width:([\d.]+)%", picture.body)
    return [(float(left), float(width)) for left, width in found]


def test_segments_stand_end_to_end_on_an_axis_that_ends_at_a_round_number():
    picture = segments(STEP, Axis("a step", "ms"), title="Two steps.")
    assert places(picture, "m-seg") == [(0, 30), (30, 60), (0, 20)]
    assert ">10\u202fms</span>" in picture.body and ">9.0\u202fms</em>" in picture.body
    assert picture.table.rows == [["eager", 3.0, 6.0], ["compiled", 2.0, None]]


def test_a_timeline_has_its_own_starts_and_says_its_sums():
    rows = [Row("stage 0", [Segment("forward", 1, 2, words="F0"), Segment("forward", 1, 5, words="F1")], after="half")]
    picture = segments(rows, Axis("time", until=10), title="A timeline.")
    assert places(picture, "m-seg") == [(20, 10), (50, 10)]
    assert picture.alt == "A timeline. stage 0: 2 (half)."


def test_a_logarithmic_bar_begins_at_the_axis_and_a_reference_has_its_words_in_the_legend():
    rows = [Row("eager", {"torch": 100.0}), Row("compiled", {"torch": 10.0})]
    picture = segments(rows, Axis("", "ms", log=True), title="Ten times.", references={"the limit": (20.0, "grey")})
    assert places(picture, "m-seg") == [(0, 100), (0, 0)]
    assert "┆</i> the limit" in picture.legend and "the limit: 20 ms" in picture.alt


def test_dots_have_a_shape_each_and_the_largest_value_behind_them():
    picture = dots(["GPipe", "1F1B"], {"on paper": [10, 20], "measured": [40, None]}, unit="%", title="Two rows.")
    assert re.findall(r"m-dot[^>]*>(.)<", picture.body) == ["●", "■", "●"]
    assert re.findall(r"<em[^>]*>([^<]*)<", picture.body) == ["40\u202f%", "20\u202f%"]
    assert picture.table.rows == [["GPipe", 10.0, 40.0], ["1F1B", 20.0, None]]
    assert picture.alt == "Two rows. GPipe: on paper 10, measured 40 %; 1F1B: on paper 20 %."


def test_where_one_value_of_a_row_was_measured_it_stands_behind_the_dots():
    ends = {"measured": (11.0, 13.0)}
    rows = [Row("too much", {"predicted": 15.0, "measured": 12.0}, spreads=ends), Row("neither", {"predicted": 9.0})]
    rows.append(Row("too little", {"predicted": 10.0, "measured": 12.0}, spreads=ends))
    picture = dotted(rows, Axis("a step", "ms"), title="Three rows.")
    assert re.findall(r"<em[^>]*>([^<]*)<", picture.body) == ["■ 12\u202fms", "9.0\u202fms", "12\u202fms"]


def test_bars_show_a_spread_and_several_series_as_dots():
    one = Series("t", ["<lambda>"], [5.0], low=[4.0], high=[7.0])
    picture = bars(one, value_title="a call, ms", title="One.", place_title="what")
    assert places(picture, "m-spread") == [(50, 37.5)] and "&lt;lambda&gt;" in picture.body
    assert picture.table.rows == [["<lambda>", "5 (4 to 7)"]]
    both = bars([one, Series("u", ["<lambda>"], [8.0])], value_title="a call, ms", title="Two.")
    assert both.body.count("m-dot ") == 2 and not places(both, "m-seg")


def test_lines_share_their_axes_and_their_labels_stay_apart():
    panel = [Line("a", [(1, 0.0), (3, 10.0)], "10"), Line("b", [(1, 5.0), (3, 10.0)], "10", dots=True)]
    picture = lines({"left": panel, "right": panel[:1]}, Axis("n"), Axis("ms"), title="Two panels.")
    assert picture.body.count("class='m-panel'") == 2 and picture.body.count("m-point") == 2
    tops = [float(top) for top in re.findall(r"<div style='top:([\d.]+)%'", picture.body)]
    assert tops[1] - tops[0] >= 9
    assert picture.table.rows[0] == ["left", "1", 0.0, 5.0]


def test_cells_and_nodes_say_in_words_who_holds_what_and_what_leads_where():
    grid = [[Cell("0", "held"), Cell("1")], [Cell("0"), Cell("1", "held", pale=True)]]
    assert "start, rank 0: 0 1" in cells({"start": grid}, rows=["rank 0", "rank 1"], title="Shards.").alt
    graph = nodes([Node("a", 0), Node("b", 1), Node("c", 1)], [("a", "b"), ("a", "c")], title="A graph.")
    assert graph.alt == "A graph. a to b; a to c." and "x1='25%' y1='50%' x2='75%' y2='25%'" in graph.body


def test_numbers_have_two_figures_below_a_hundred_and_three_from_there_on():
    values = [0.714, 3.44, 9.96, 24.4, 139.4, 1562.0, 7, -0.5]
    assert [*map(short, values)] == ["0.71", "3.4", "10", "24", "139", "1,560", "7", "−0.5"]
