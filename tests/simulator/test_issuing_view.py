"""The CPU's lane and the GPU's: one scale for all ways, the words agree with the model."""

import re

import pytest

from compile_lab import recordings
from compile_lab.simulator import issuing_view
from compile_lab.simulator.issuing import WAYS, work

CHOICE = {"way": "eager", "kernels": 50, "kernel_time": 3, "cost_of_an_issue": 14, "fused_into_one": 1.25}
CHOICE |= {"work_left": 80, "launch_of_a_graph": 60}


def panel(**choice):
    return issuing_view.panel(**CHOICE | choice)


def ticks(drawing):
    return re.findall(r"text-anchor='(?:middle|end)'>([\d,.]+ [µm]s|0)</text>", drawing.svg)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_drawn_beside_all_others_on_one_scale(way):
    said, drawing = panel(way=way)
    assert ticks(drawing) == ["0", "500 µs", "1,000 µs", "1,500 µs"]
    rows = {row[0]: row[1:] for row in drawing.table.rows}
    assert rows == {
        "eager": (50, 700, 150, 700, "79%"),
        "compiled": (40, 560, 120, 560, "79%"),
        "CUDA graph": (40, 60, 120, 120, "0%"),
    }
    assert f"each takes **{rows[way][3]:.0f} µs**" in said and f"idle for **{rows[way][4]}**" in said
    assert ("The **GPU** limits" in said) == (way == "CUDA graph")
    assert f"2 calls of {way}" in drawing.alt and "CUDA graph 120 µs, the GPU idle for 0%" in drawing.alt


def test_each_launch_and_each_kernel_has_a_box():
    drawing = panel()[1]
    blue, green = (drawing.svg.count(f"fill='{colour}'") for colour in ("#0072B2", "#009E73"))
    assert blue == 2 * 50 and green == 2 * 50 + len(WAYS)


def test_of_too_many_kernels_the_share_of_time_is_drawn():
    drawing = panel(kernels=3000)[1]
    assert len(drawing.svg) < 60_000 and "too many to draw each" in drawing.caption
    busy = [share for _, _, share in issuing_view._told_apart([(at, at + 0.25) for at in range(400)], 400)]
    assert busy == [pytest.approx(0.25)] * issuing_view.BINS


def test_the_queue_is_told_and_fits_its_lane():
    drawing = panel(kernel_time=40)[1]
    assert "at most 65 kernels wait in the queue" in drawing.alt and "at most 65" in drawing.svg
    assert "at most 0 kernels wait" in panel()[1].alt


def test_what_the_model_refuses_is_refused_in_its_words():
    for choice, said in (
        ({"kernels": 0}, "kernels is 0; it must be a whole number from 1"),
        ({"kernels": 6000}, "it must be a whole number from 1 to 5,000"),
        ({"kernels": 7.5}, "kernels is 7.5; it must be a whole number"),
        ({"fused_into_one": 0.5}, "fused is 0.5; it must be at least 1"),
        ({"way": "lazy"}, "lazy"),
    ):
        with pytest.raises((ValueError, KeyError), match=said):
            panel(**choice)


def test_the_controls_start_where_they_are_told_and_the_panel_takes_them():
    start = {"kernels": 50, "kernel_us": 3.182, "issue_us": 14.02, "fused": 1.316, "work_left": 0.784}
    axes = issuing_view.axes(**start, graph_launch_us=61.2)
    first = {name: getattr(axis, "start", axis[0] if isinstance(axis, tuple) else None) for name, axis in axes.items()}
    assert first == {
        "way": "eager",
        "kernels": 50,
        "kernel_time": 3.2,
        "cost_of_an_issue": 14,
        "fused_into_one": 1.3,
        "work_left": 78,
        "launch_of_a_graph": 61,
    }
    assert "700 µs" in issuing_view.panel(**first)[0]


def test_the_controls_start_at_a_recorded_workload():
    workloads = {one["name"]: one for one in recordings.load("modes").result["workloads"]}
    axes = issuing_view.recorded_axes(workloads["MiniGPT inference"])
    assert axes["kernels"].start == 50 and axes["cost_of_an_issue"].start == 14 and axes["kernel_time"].start == 3.2
    with pytest.raises(ValueError, match="GPT-2 training: the GPU is busy for most"):
        issuing_view.recorded_axes(workloads["GPT-2 training"])


def test_nothing_to_do_is_drawn_too():
    said, drawing = panel(kernel_time=0, cost_of_an_issue=0, launch_of_a_graph=0)
    assert "each takes **0 µs**" in said and drawing.svg.startswith("<svg")


def test_long_times_are_told_in_milliseconds():
    assert [issuing_view.microseconds(us) for us in (0.5, 14, 123.4, 9_999, 28_000)] == [
        "0.5 µs",
        "14 µs",
        "123 µs",
        "9,999 µs",
        "28 ms",
    ]
    assert work("eager", 1, 1, 1).call_us == 1
