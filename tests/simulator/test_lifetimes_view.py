"""The lives under a budget as drawn: one scale serves all, and words and pictures are the step's."""

import re

import pytest

from compile_lab.simulator import lifetimes_view as view
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived

MODELS = list(stored_graphs())
ONE = MODELS[0]


@pytest.mark.parametrize("model", MODELS)
def test_one_scale_of_bytes_and_operations_serves_all_budgets(model):
    """The most live bytes reach so high, and the last operation stands so far right, by the same two factors."""
    scales = set()
    for budget in (1, 0.7, 0.4, 0.1, 0):
        step = lived(stored_graphs()[model], budget)
        path = re.search(r"<path class='m-area[^']*' d='([^L]*)", view.budgeted(model, budget)[1].body)[1]
        top = min(float(down) for down in re.findall(r"V([\d.]+)", path))
        right = float(path.rpartition("H")[2])
        scales.add(((100 - top) / step.peak_nbytes, right / len(step.live)))
    first = scales.pop()
    assert all(each == pytest.approx(first, rel=0.001) for each in scales)


def test_words_and_pictures_agree_with_the_step():
    said, mountain, largest = view.budgeted(ONE, 0.5)
    step, plain = (lived(stored_graphs()[ONE], budget) for budget in (0.5, 1))
    assert f"**{view.with_unit(step.peak_nbytes)}**, 35 % less than at 1" in said
    assert f"{step.again - plain.again} more operations run twice, among them 33 %" in said
    assert view.with_unit(step.peak_nbytes) in mountain.title and "25 % more than at 1" in view.budgeted(ONE, 0)[0]
    assert sum(sum(value or 0 for value in row[1:-1]) for row in largest.table.rows) == sum(
        min(each.death + 1, len(step.live)) - each.birth for each in view._largest(step)
    )
