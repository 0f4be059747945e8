"""Names on the bars of an eager step, and the allocator's curve beside a computed one."""

import re
from dataclasses import replace

import pytest
import torch

from compile_lab.aot import as_graphs
from compile_lab.memory import eager_lifetimes, measure_step
from compile_lab.memory.labelled_view import beside, labelled
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived
from mini_model.model import MINI, MiniGPT


@pytest.fixture(scope="module")
def mini():
    return MiniGPT(replace(MINI, layers=1)), torch.zeros(8, 64, dtype=torch.int64)


def test_bars_are_named_by_operation_line_and_bytes(mini):
    model, tokens = mini
    drawing = labelled(eager_lifetimes(lambda: model(tokens, tokens).backward(), model))
    labels = re.findall(r"class='lab-fine'[^>]*>([^<]*)</text>", drawing.svg)
    assert any(re.fullmatch(r"gelu · (.*/)?model\.py:\d+ · 524 kB", label) for label in labels)
    assert "6.07 MB at the peak" in drawing.alt
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        model(tokens, tokens).backward()
        optimizer.step()

    with pytest.raises(ValueError, match="optimizer"):
        labelled(eager_lifetimes(step, model, optimizer))
    model.zero_grad()


def test_the_allocators_curve_is_drawn_beside_the_computed_one(mini):
    model, tokens = mini
    run = as_graphs(model, memory_budget=0.5)
    measured = measure_step(lambda: run(tokens, tokens), model.zero_grad)
    step = lived(stored_graphs()["MiniGPT, one layer"], 0.5)
    assert (
        max(measured.curve) == measured.peak_nbytes
        and measured.curve[measured.forward_events - 1] == measured.held_nbytes
    )
    drawing = beside(step, measured)
    assert ("the same, to the byte" in drawing.alt) == (step.peak_nbytes == measured.peak_nbytes)
    assert len(re.findall(r"<path d='M[^']*z'", drawing.svg)) == 2
    with pytest.raises(ValueError, match="measure_step"):
        beside(step, replace(measured, curve=()))
