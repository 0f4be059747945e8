"""The experiment on a small model. Chapter 20 shows the recorded runs."""

import pytest

from chapters.is_it_right.experiments import wrong_gradient
from chapters.is_it_right.experiments.wrong_gradient import COMPILED, EAGER, SWITCHED, DiffusionRun, recorded


@pytest.mark.slow
def test_the_experiment_trains_each_way_from_the_same_weights():
    sizes = {"steps": 2, "shapes": ((1, 64),), "dim": 64, "layer_norms": ((1, 64, 32),)}
    result = wrong_gradient.record("cpu", **sizes, precisions=("fp32",), seeds=(0, 1))
    runs, rows = recorded(result)
    assert [(run.way, run.seed) for run in runs] == [(EAGER, 0), (COMPILED, 0), (SWITCHED, 0), (EAGER, 1)]
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4) and runs[0].losses != runs[3].losses
    assert rows[0].compiled < 1e-5 and not result["stopped"]
    assert DiffusionRun.from_json(vars(runs[0]) | {"losses": list(runs[0].losses)}) == runs[0]
