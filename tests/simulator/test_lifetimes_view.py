"""The lives under a budget as drawn: one scale serves all, names stand on the bars, words are the step's."""

import re

import pytest

from compile_lab.simulator import lifetimes_view as view
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived

MODELS = list(stored_graphs())
ONE = MODELS[0]


def panel(model=ONE, budget=0.5):
    said, drawing = view.budgeted(model, budget)
    return said, drawing, lived(stored_graphs()[model], budget)


@pytest.mark.parametrize("model", MODELS)
def test_one_scale_of_bytes_and_operations_serves_all_budgets(model):
    axes = set()
    for budget in (1, 0.7, 0.4, 0.1, 0):
        _, drawing, step = panel(model, budget)
        top = min(
            float(y) for path in re.findall(r"<path d='M([^']*)z'", drawing.svg) for y in re.findall(r" (\d+)", path)
        )
        ends = max(
            float(x) for path in re.findall(r"<path d='M([^']*)z'", drawing.svg) for x in re.findall(r"(\d+) ", path)
        )
        height = (view.TOP + view.HIGH - top) / step.peak_nbytes
        axes.add((round(1e6 * height, 1), round((ends - view.LEFT) / len(step.live), 1)))
    first = axes.pop()
    assert all(each == pytest.approx(first, rel=0.03) for each in axes)


@pytest.mark.parametrize("budget", [1, 0.5, 0])
def test_each_bar_tells_its_name_its_line_and_its_bytes_without_hovering(budget):
    _, drawing, step = panel(budget=budget)
    labels = re.findall(r"<text [^>]*class='lab-fine'[^>]*>([^<]*)</text>", drawing.svg)
    assert 10 <= len(labels) <= view.BARS and sum("model.py:" in label for label in labels) >= len(labels) - 1
    assert all(re.search(r"\d (bytes|kB|MB)$", label) for label in labels)
    tops = {label.rpartition(" · ")[2] for label in labels}
    assert view.with_unit(step.alive(step.peak_at)[0].nbytes) in tops


def test_words_and_picture_agree_with_the_step():
    said, drawing, step = panel(budget=0.5)
    plain = lived(stored_graphs()[ONE], 1)
    assert f"**{view.with_unit(step.peak_nbytes)}**, 35 % less than at 1" in said
    assert f"{step.again - plain.again} more operations run twice, among them 33 %" in said
    assert view.with_unit(step.peak_nbytes) in drawing.alt and drawing.table.rows[0][-1] == "1.23 MB"
    assert "none of them a product" in panel(budget=1)[0] and "25 % more than at 1" in panel(budget=0)[0]


def test_axes_that_end_too_early_are_refused():
    step = panel()[2]
    with pytest.raises(ValueError, match="let the axes end later"):
        view.lives(step, ceiling_nbytes=step.peak_nbytes - 1)
    with pytest.raises(ValueError, match="let the axes end later"):
        view.lives(step, operations=10)
    with pytest.raises(ValueError, match="from 0 to 1"):
        view.budgeted(ONE, 1.5)
