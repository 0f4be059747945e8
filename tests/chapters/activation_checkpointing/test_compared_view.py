"""Strategies as dots, blocks as squares: what is drawn is what the recording and the plans say."""

import re
from dataclasses import replace

import pytest

from chapters.activation_checkpointing import view
from chapters.activation_checkpointing.compared_view import saved_grid, tradeoff
from chapters.activation_checkpointing.experiments.checkpointing import recorded
from compile_lab import recordings

RUNS = [recordings.load(name) for name in ("checkpointing", "checkpointing_compiled")]
COSTS = recorded(*(run.result for run in RUNS))


def test_a_dot_stands_at_its_peak_and_its_time():
    chosen = [COSTS[name] for name in ("none", "every layer", "budget 0.1")]
    drawing = tradeoff(chosen)
    dots = [tuple(map(float, each)) for each in re.findall(r"<rect x='([\d.]+)' y='([\d.]+)' width='14'", drawing.svg)]
    x = [dot[0] + 7 - 70 for dot in dots]
    assert x[1] / x[0] == pytest.approx(chosen[1].peak_nbytes / chosen[0].peak_nbytes, rel=0.02)
    high = [310 - dot[1] - 7 for dot in dots]
    assert high[1] / high[0] == pytest.approx(chosen[1].time_ms / chosen[0].time_ms, rel=0.02)
    assert "lowest peak has every layer, 2.61 GB" in drawing.alt
    assert ">GB at the peak<" in drawing.svg and ">15<" in drawing.svg
    small = tradeoff(
        [replace(each, peak_nbytes=each.peak_nbytes // 2000, time_ms=each.time_ms / 50) for each in chosen]
    )
    assert ">MB at the peak<" in small.svg and ">6<" in small.svg
    with pytest.raises(ValueError, match="at least one"):
        tradeoff([])


def test_no_name_stands_in_another_or_on_a_dot():
    chosen = [COSTS[name] for name in COSTS if name == "none" or name.startswith("budget")]
    svg = tradeoff(chosen).svg
    dots = re.findall(r"<rect x='([\d.]+)' y='([\d.]+)' width='14'", svg)
    boxes = [(float(x), float(y), float(x) + 14, float(y) + 14) for x, y in dots]
    words = re.findall(r"<text x='([\d.]+)' y='([\d.]+)'(?: text-anchor='(\w+)')?>(budget [\d.]+|none)</text>", svg)
    assert len(words) == len(dots) == len(chosen) == 7
    for x, y, anchor, name in words:
        long = 9 * len(name)
        left = float(x) - {"": 0, "middle": long / 2, "end": long}[anchor]
        mine = (left, float(y) - 14, left + long, float(y) + 2)
        for other in boxes:
            assert mine[2] <= other[0] or other[2] <= mine[0] or mine[3] <= other[1] or other[3] <= mine[1]
        boxes.append(mine)


def test_the_longest_stretch_without_is_marked():
    drawing = saved_grid({1.0: range(6), 0.5: [0, 4], 0.0: []}, 6)
    assert "1: 6 of 6, at most 0 in a row" in drawing.alt and "0.5: 2 of 6, at most 3 in a row" in drawing.alt
    assert drawing.svg.count("<rect") == 18 and drawing.svg.count("fill-opacity") == 4 + 6
    with pytest.raises(ValueError, match="a block"):
        saved_grid({1.0: [7]}, 6)


def test_segments_are_ticked_where_they_were_measured_and_marks_are_drawn():
    plot = view.segments(COSTS.values(), marks={"√24": 24**0.5}).to_json()
    assert plot["layout"]["xaxis"]["tickvals"] == [1, 2, 3, 4, 6, 8, 12, 24]
    assert plot["data"][-1]["name"] == "√24" and plot["data"][-1]["x"] == [pytest.approx(4.9, abs=0.01)] * 2
