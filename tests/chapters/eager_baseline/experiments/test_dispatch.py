"""What the recording of dispatch costs holds, tried on a CPU at small sizes."""

import json

import pytest
import torch
from example_trace import SEEN
from torch import nn

from chapters.eager_baseline.experiments.dispatch import BATCHES, launches, launches_in, op_costs, quartiles_us, record
from chapters.shared import subjects


def is_a_spread(times):
    return 0 < times["low_us"] <= times["median_us"] <= times["high_us"]


def test_every_operation_is_timed_in_each_mode_that_it_allows():
    rows = op_costs("cpu", samples=3)
    assert all(map(is_a_spread, rows))
    modes = {}
    for row in rows:
        modes.setdefault(row["op"], set()).add(row["mode"])
    assert modes["x + y"] == {"grad", "no_grad", "inference_mode"}
    assert modes["x.add_(y)"] == {"no_grad", "inference_mode"}, "in place, a leaf that requires grad is an error"


def test_the_recording_is_plain_and_complete():
    found = record("cpu", length=4, samples=3)
    assert json.loads(json.dumps(found)) == found
    assert found["tokens"] == 4 and found["parameters"] == sum(one.numel() for one in subjects.minigpt().parameters())
    assert found["counts"]["training"]["computing"] > 2 * found["counts"]["forward"]["computing"]
    assert [(row["pass"], row["batch"]) for row in found["batches"]] == [
        (name, batch) for name in ("forward", "training") for batch in BATCHES["cpu"]
    ]
    assert all(is_a_spread(row["wall"]) and is_a_spread(row["issue"]) for row in found["batches"])


def test_a_call_takes_as_long_as_the_clock_says(clock):
    taken = quartiles_us(lambda: clock.passes(0.002), "cpu", samples=3)
    assert taken == {"median_us": 2000, "low_us": 2000, "high_us": 2000}


def test_the_threads_are_given_back():
    threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        quartiles_us(lambda: 1 / 0, "cpu")
    assert torch.get_num_threads() == threads


def test_what_operators_launch_is_counted_by_call():
    assert launches_in(SEEN, calls=1) == [
        {"op": "aten::addmm", "calls": 1, "kernels": 2, "kernels_us": 17},
        {"op": "aten::zero_", "calls": 1, "kernels": 1, "kernels_us": 2},
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_profiler_ties_kernels_to_operators():
    layer = nn.Linear(64, 64, device="cuda")
    x = torch.rand(8, 64, device="cuda")
    rows = launches(lambda: layer(x))
    assert [row["op"] for row in rows] == ["aten::addmm"] and rows[0]["calls"] == 1
    assert 0 < rows[0]["kernels_us"] < 1000
