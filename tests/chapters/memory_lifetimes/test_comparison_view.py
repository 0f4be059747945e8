"""The allocator's curve compared with a computed one."""

from dataclasses import replace

import pytest
import torch

from chapters.memory_lifetimes.view import comparison
from compile_lab.aot import as_graphs
from compile_lab.memory import measure_step
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived
from mini_model.model import MINI, MiniGPT


@pytest.fixture(scope="module")
def mini():
    return MiniGPT(replace(MINI, layers=1)), torch.zeros(8, 64, dtype=torch.int64)


@pytest.mark.slow
def test_the_allocators_curve_is_drawn_beside_the_computed_one(mini):
    model, tokens = mini
    run = as_graphs(model, memory_budget=0.5)
    measured = measure_step(lambda: run(tokens, tokens), model.zero_grad)
    step = lived(stored_graphs()["MiniGPT, one layer"], 0.5)
    assert (
        max(measured.curve) == measured.peak_nbytes
        and measured.curve[measured.forward_events - 1] == measured.held_nbytes
    )
    drawing = comparison(step, measured)
    assert ("the same to the byte" in drawing.title) == (step.peak_nbytes == measured.peak_nbytes)
    with pytest.raises(ValueError, match="measure_step"):
        comparison(step, replace(measured, curve=()))
