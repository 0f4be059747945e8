"""The CPU's lane and the GPU's: one scale for all ways, the words agree with the model."""

import pytest

from compile_lab.simulator import issuing_view
from compile_lab.simulator.issuing import WAYS

CHOICE = {"way": "eager", "kernels": 50, "kernel_time": 3, "cost_of_an_issue": 14, "fused_into_one": 1.25}
CHOICE |= {"work_left": 80, "launch_of_a_graph": 60}


def panel(**choice):
    return issuing_view.panel(**CHOICE | choice)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_drawn_beside_all_others_on_one_scale(way):
    said, drawing, *_ = panel(way=way)
    assert "1,500\u202fµs" in drawing.body, "as long as the slowest way needs"
    assert drawing.table.rows == [
        ("eager", 50, 700, 150, 700, "79%"),
        ("compiled", 40, 560, 120, 560, "79%"),
        ("CUDA graph", 40, 60, 120, 120, "0%"),
    ]
    row = next(row for row in drawing.table.rows if row[0] == way)
    assert f"each takes **{row[4]:.0f} µs**" in said and f"idle for **{row[5]}**" in said
    assert ("The **GPU** limits" in said) == (way == "CUDA graph")


def test_of_too_many_kernels_the_share_of_time_is_drawn():
    assert len(panel(kernels=3000)[1].body) < 30_000
    spans = {(at, at + 0.25): False for at in range(400)}
    assert [each.value for each in issuing_view._told_apart("", spans, 400, 1)] == [1.0] * issuing_view.BINS


def test_a_queue_is_drawn_where_there_is_one():
    assert panel(kernel_time=40)[2].title == "At most 65 kernels wait in the queue." and len(panel()) == 2


def test_nothing_to_do_is_drawn_too():
    said, drawing = panel(kernel_time=0, cost_of_an_issue=0, launch_of_a_graph=0)
    assert "each takes **0 µs**" in said and drawing.table.rows[0] == ("eager", 50, 0, 0, 0, "0%")


def test_long_times_are_told_in_milliseconds():
    said = [issuing_view.microseconds(us) for us in (0.5, 14, 123.4, 9_999, 28_000)]
    assert said == ["0.5 µs", "14 µs", "123 µs", "9,999 µs", "28 ms"]
