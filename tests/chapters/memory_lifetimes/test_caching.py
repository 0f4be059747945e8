"""Steps replayed in the model of torch's caching allocator, as the chapter draws them."""

import pytest
import torch

from chapters.memory_lifetimes.view import live_bytes, memory_map
from compile_lab.memory import eager_lifetimes
from compile_lab.memory.caching import CachingAllocator, replay, requests


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
    drawn = live_bytes(steps[1], names=["the largest"])
    share = 100 * sum(each.nbytes for each in steps[1].alive_at(steps[1].peak_at)[:3]) / steps[1].peak_nbytes
    assert f"largest buffers are {share:.0f} % of it" in drawn.title and "the largest at most" in drawn.alt
    with pytest.raises(ValueError, match="nothing is reserved"):
        memory_map(CachingAllocator())
    with pytest.raises(ValueError, match="most is 4"):
        live_bytes(steps[0], most=4)
