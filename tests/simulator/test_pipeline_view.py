"""The bubble plot: where a bar stands and how wide it is, what its words and tables say, and what it weighs."""

import re

import pytest

from compile_lab.page.figures import PALETTE
from compile_lab.simulator import pipeline_view
from compile_lab.simulator.pipeline import SCHEDULES, Action, Timeline, simulate

BLUE, ORANGE = PALETTE["blue"], PALETTE["orange"]


def bars(svg, colour):
    """Every bar of one colour as (left, right, middle), in absolute places."""
    found, x, y = [], 0, 0
    for path in re.findall(rf"<path d='([^']+)' stroke='{colour}'", svg):
        for kind, dx, dy, length in re.findall(r"([Mm])(-?\d+) (-?\d+)h(\d+)", path):
            x, y = (int(dx), int(dy)) if kind == "M" else (x + int(dx), y + int(dy))
            found.append((x, x + int(length), y))
            x += int(length)
    return found


def numbers(svg):
    """The rows of numbers: for each text, its digits and their places."""
    rows = re.findall(r"<text y='\d+' x='([\d ]+)'>(\d+)</text>", svg)
    return [(digits, [int(place) for place in places.split()]) for places, digits in rows]


def test_a_bar_runs_from_start_to_end_in_the_row_of_its_rank():
    svg = pipeline_view.bubbles(simulate("GPipe", 2, 2)).svg
    # 2 ranks, 2 micro-batches, a backward of 2: nine units of time on 900 of width, right of the names
    assert bars(svg, BLUE) == [(100, 199, 20), (200, 299, 20), (200, 299, 66), (300, 399, 66)]
    assert bars(svg, ORANGE) == [(600, 799, 20), (800, 999, 20), (400, 599, 66), (600, 799, 66)]
    assert "M100 20h900M100 66h900" in svg, "the grey of the bubbles runs through both rows"


def test_numbers_stand_in_the_middle_of_their_bars_where_there_is_room():
    svg = pipeline_view.bubbles(simulate("GPipe", 2, 12)).svg
    places = {digits: at for digits, at in numbers(svg) if digits.startswith("012")}
    assert set(places) == {"01234567891011"}, "every micro-batch, in each row and colour"
    few = pipeline_view.bubbles(simulate("GPipe", 2, 80)).svg
    assert not numbers(few), "bars too narrow carry none"
    (digits, at), *_ = numbers(pipeline_view.bubbles(simulate("1F1B", 1, 1)).svg)
    assert digits == "0" and at == [250], "a forward that takes a third of 900, right of 100"


def test_several_timelines_share_one_scale():
    one, other = simulate("1F1B", 4, 8), simulate("Interleaved1F1B", 8, 8, forward=0.5, input_grad=0.5, weight_grad=0.5)
    made = pipeline_view.bubbles({"1F1B": one, "two <stages>": other}, "Side by side", unit="ms")
    ends = [max(right for *_, right, _ in bars(made.svg, colour)) for colour in (ORANGE, "#F3D48B")]
    assert ends[0] == 999 and bars(made.svg, ORANGE)
    assert max(right for _, right, middle in bars(made.svg, ORANGE) if middle > 250) == 99 + round(
        900 * other.span / one.span
    )
    assert "two &lt;stages&gt;</text>" in made.svg and "33 ms in all" in made.legend
    assert str(one) in made.alt and str(other) in made.alt
    assert [row[0] for row in made.table.rows] == ["1F1B", "two <stages>"]


def test_a_second_stage_is_paler_and_the_legend_says_so():
    plain = pipeline_view.bubbles(simulate("1F1B", 4, 4))
    looped = pipeline_view.bubbles(simulate("ZBVZeroBubble", 8, 8))
    assert "#86BEDD" not in plain.svg and "paler" not in plain.legend and "gradient of the" not in plain.legend
    assert len(bars(looped.svg, BLUE)) == len(bars(looped.svg, "#86BEDD")) == 4 * 8
    assert "paler" in looped.legend and "gradient of the weights" in looped.legend


def test_a_measured_timeline_need_not_start_at_nought():
    actions = (Action(0, "F", 0, 0, 1e6 + 5.0, 1e6 + 7.0), Action(0, "B", 0, 0, 1e6 + 8.0, 1e6 + 11.0))
    made = pipeline_view.bubbles(Timeline("GPipe", 1, 1, 1, actions, (1,)), unit="ms")
    assert bars(made.svg, BLUE) == [(100, 399, 20)] and bars(made.svg, ORANGE) == [(550, 999, 20)]
    assert made.table.rows == [(0, 0.0, 6.0, "16.7%", 1, "0F0 0B0")]
    assert "6 ms in all" in made.legend


def test_tables_say_who_waits_what_is_held_and_what_is_sent():
    found = simulate("1F1B", 4, 8)
    waits = [row[3] for row in pipeline_view.by_rank(found).rows]
    assert waits == ["27.3%"] * 4 and [row[4] for row in pipeline_view.by_rank(found).rows] == [4, 3, 2, 1]
    several = {name: simulate(name, 4 * SCHEDULES[name], 8) for name in ("GPipe", "Interleaved1F1B", "ZBVZeroBubble")}
    sent = {row[0]: row[-1] for row in pipeline_view.compared(several).rows}
    held = {row[0]: row[3] for row in pipeline_view.compared(several).rows}
    assert held == {"GPipe": "8", "Interleaved1F1B": "2.5 to 5.5", "ZBVZeroBubble": "4"}
    assert sent == {"GPipe": 2 * 3 * 8, "Interleaved1F1B": 2 * 7 * 8, "ZBVZeroBubble": 2 * 6 * 8}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_drawing_of_eight_ranks_and_sixteen_micro_batches_is_small(schedule):
    found = simulate(schedule, 8 * SCHEDULES[schedule], 16)
    assert len(pipeline_view.bubbles(found)._repr_html_()) < 11_000


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="at least one Timeline"):
        pipeline_view.bubbles({})


def test_a_line_marks_what_waits_in_the_row_of_its_rank():
    found = simulate("GPipe", 2, 2)
    made = pipeline_view.bubbles({"one": found, "other": found}, waits=lambda each: [(1, 1.0, 4.0), (0, 2.0, 2.0)])
    lines = re.findall(r"<path d='([^']+)' stroke='currentColor' stroke-width='4'", made.svg)
    assert lines == ["M200 119h300", "M200 241h300"], "900 for nine units; the empty one leaves no trace"
    assert "a receive was posted" in made.legend and "receive" not in pipeline_view.bubbles(found).legend


def test_an_axis_gives_every_drawing_the_same_scale():
    short, long = (pipeline_view.bubbles(simulate("GPipe", 2, m), unit="F", until=48, table=False) for m in (2, 4))
    widths = [right - left for each in (short, long) for left, right, _ in bars(each.svg, ORANGE)]
    assert max(widths) - min(widths) <= 1 and short.table is None
    assert re.findall(r">([\d.]+(?: F)?)</text>", short.svg)[-7:] == ["0", "8", "16", "24", "32", "40", "48 F"]
    with pytest.raises(ValueError, match="until=8: the longest of these timelines takes 15; let the axis end later"):
        pipeline_view.bubbles(simulate("GPipe", 2, 4), until=8)


def test_at_a_glance_time_waiting_and_memory_stand_side_by_side():
    several = {name: simulate(name, 2, 4) for name in ("GPipe", "1F1B")}
    made = pipeline_view.glance(several, unit="F")
    boxes = re.findall(r"<rect x='([\d.]+)' y='[\d.]+' width='([\d.]+)'[^>]*fill='([^']+)'", made.svg)
    forwards = [float(width) for _, width, fill in boxes if fill == BLUE]
    assert forwards == [pytest.approx((735 - 66) / 15 - 1, abs=0.1)] * 16, "a forward is a fifteenth of the axis"
    held = [fill for *_, fill in boxes].count(PALETTE["purple"])
    assert held == 4 + 4 + 2 + 1 and made.svg.count("stroke-dasharray") == 16 - held
    assert made.svg.count("waits 20%") == 2 and ">holds up to 2<" in made.svg and ">15 F<" in made.svg
    with pytest.raises(ValueError, match=r"\[2, 4\] micro-batches: give the same work"):
        pipeline_view.glance({"one": simulate("GPipe", 2, 2), "other": simulate("GPipe", 2, 4)})


def test_the_opening_shows_chapter_12s_own_numbers():
    made = pipeline_view.opening()
    assert "GPipe waits 27% and ZBVZeroBubble waits 6% of it; a rank holds up to 8 and 4" in made.alt
    assert len(made.svg) < 60_000 and made.table is None
