"""Steps replayed in the model of torch's caching allocator, and its own curve."""

from dataclasses import replace

import pytest
import torch

from chapters.memory_lifetimes.view import comparison, live_bytes, memory_map
from compile_lab.aot import as_graphs
from compile_lab.memory import eager_lifetimes, measure_step
from compile_lab.memory.caching import CachingAllocator, replay, requests
from compile_lab.memory.measured import Peak
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived
from mini_model.model import MINI, MiniGPT


def test_steps_are_replayed_and_their_gradients_go_when_the_next_begins():
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512))
    steps = []
    for rows in (256, 512, 256):
        x = torch.randn(rows, 512)
        steps.append(eager_lifetimes(lambda x=x: model(x).sum().backward(), model))
        model.zero_grad()
    asked = requests(steps)
    figures, at_peak = replay(asked)
    assert [each.allocated_nbytes for each in figures] == pytest.approx([s.peak_nbytes for s in steps], rel=0.01)
    reserved = [each.reserved_nbytes for each in figures]
    assert reserved == sorted(reserved), "nothing is given back"
    assert at_peak.allocated_nbytes == figures[-1].allocated_nbytes and at_peak.reserved_nbytes <= reserved[-1]
    with pytest.raises(ValueError, match="most is 4"):
        live_bytes(steps[0], most=4)


@pytest.mark.slow
def test_the_allocators_curve_has_its_peak_and_what_is_held_between_the_passes():
    model, tokens = MiniGPT(replace(MINI, layers=1)), torch.zeros(8, 64, dtype=torch.int64)
    run = as_graphs(model, memory_budget=0.5)
    measured = measure_step(lambda: run(tokens, tokens), model.zero_grad)
    assert max(measured.curve) == measured.peak_nbytes
    assert measured.curve[measured.forward_events - 1] == measured.held_nbytes


def test_a_drawing_without_a_curve_or_a_segment_is_refused():
    with pytest.raises(ValueError, match="measure_step"):
        comparison(lived(stored_graphs()["MiniGPT, one layer"], 0.5), Peak("cpu", 9, 3, 0, "mm", ()))
    with pytest.raises(ValueError, match="nothing is reserved"):
        memory_map(CachingAllocator())
