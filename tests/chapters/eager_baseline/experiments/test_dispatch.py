"""What the recording of dispatch costs holds, tried on a CPU at small sizes."""

import json

import pytest
import torch
from torch import nn

from chapters.eager_baseline import view as dispatch_view
from chapters.eager_baseline.experiments.dispatch import BATCHES, launches, op_costs, quartiles_us, record
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
    shown = dispatch_view.batches(found["batches"][:2])
    assert len(shown.plot.data) == 2 and "at batch 8" in shown.alt, "a CPU's kernels have no time of their own"
    assert dispatch_view.model_error(found["batches"]) == ""
    assert "forward and backward" in dispatch_view.batches(found["batches"][2:]).caption
    assert all(is_a_spread(row["wall"]) and is_a_spread(row["issue"]) for row in found["batches"])


def test_the_models_error_and_the_hosts_spread_are_said_in_words():
    timed = [(1000, 900, 300), (1000, 400, 1100), (2000, 2400, 100)]
    rows = [
        {"batch": 2**at, "wall": {"median_us": wall}, "issue": {"median_us": issue}, "kernels_us": kernels}
        for at, (wall, issue, kernels) in enumerate(timed)
    ]
    said = dispatch_view.model_error(rows)
    assert "less than 10.0%" in said and "more than 20%" in said
    assert dispatch_view.overtakes(rows) == 2 and dispatch_view.overtakes(rows[:1]) is None
    assert "400 to 2,400 µs" in dispatch_view.issuing(rows)


def test_a_call_takes_as_long_as_the_clock_says(clock):
    taken = quartiles_us(lambda: clock.passes(0.002), "cpu", samples=3)
    assert taken == {"median_us": 2000, "low_us": 2000, "high_us": 2000}


def test_the_threads_are_given_back():
    threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        quartiles_us(lambda: 1 / 0, "cpu")
    assert torch.get_num_threads() == threads


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_profiler_ties_kernels_to_operators():
    layer = nn.Linear(64, 64, device="cuda")
    x = torch.rand(8, 64, device="cuda")
    rows = launches(lambda: layer(x))
    assert [row["op"] for row in rows] == ["aten::addmm"] and rows[0]["calls"] == 1
    assert 0 < rows[0]["kernels_us"] < 1000
