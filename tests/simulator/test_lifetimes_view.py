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
    """The most live bytes reach so high, and the last operation stands so far right, by the same two factors."""
    scales = set()
    for budget in (1, 0.7, 0.4, 0.1, 0):
        _, drawing, step = panel(model, budget)
        paths = re.findall(r"<path d='M([^']*)z'", drawing.svg)
        top = min(float(y) for path in paths for y in re.findall(r" (\d+)", path))
        right = max(float(x) for path in paths for x in re.findall(r"(\d+) ", path))
        scales.add(((view.TOP + view.HIGH - top) / step.peak_nbytes, (right - view.LEFT) / len(step.live)))
    first = scales.pop()
    assert all(each == pytest.approx(first, rel=0.03) for each in scales)


def test_words_and_picture_agree_with_the_step():
    said, drawing, step = panel(budget=0.5)
    plain = lived(stored_graphs()[ONE], 1)
    assert f"**{view.with_unit(step.peak_nbytes)}**, 35 % less than at 1" in said
    assert f"{step.again - plain.again} more operations run twice, among them 33 %" in said
    assert view.with_unit(step.peak_nbytes) in drawing.alt and "25 % more than at 1" in panel(budget=0)[0]
