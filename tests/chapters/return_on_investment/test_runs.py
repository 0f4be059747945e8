"""Runs against float64: the truth is at distance 0, an ulp is small, autocast is far, and the doors."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.return_on_investment import runs
from chapters.return_on_investment.runs import REFERENCE, YARDSTICK, TrainedRun, trajectories


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x, y):
        return F.mse_loss(self.down(self.up(x).tanh()).float(), y.float())


def make(seed):
    torch.manual_seed(seed)
    return Regression()


def batches(seed):
    drawn = torch.Generator().manual_seed(seed)
    return [(torch.randn(16, 8, generator=drawn), torch.randn(16, 1, generator=drawn)) for _ in range(4)]


@pytest.fixture(autouse=True)
def inputs_follow_the_weights(monkeypatch):
    forward = Regression.forward
    monkeypatch.setattr(Regression, "forward", lambda self, x, y: forward(self, x.to(self.up.weight.dtype), y))


def test_distances_are_from_float64_of_the_same_seed():
    found = trajectories(make, batches, ("fp32 eager", YARDSTICK, "bf16 autocast eager"), (0, 1), (1, 4))
    by = {(run.name, run.seed): run for run in found}
    assert len(found) == 8 and all(run.steps == (1, 4) and len(run.losses) == 4 for run in found)
    for seed in (0, 1):
        assert by[REFERENCE, seed].distances == (0, 0)
        assert 0 < by["fp32 eager", seed].distances[-1] < 1e-3 < by["bf16 autocast eager", seed].distances[-1] < 1
        assert by[YARDSTICK, seed].distances != by["fp32 eager", seed].distances
    assert by[REFERENCE, 0].losses != by[REFERENCE, 1].losses
    assert TrainedRun.from_json(found[0].to_json()).steps == found[0].steps


@pytest.mark.slow
def test_what_is_compiled_is_compiled_once_and_starts_anew_for_each_seed():
    found = trajectories(make, batches, ("fp64 compiled",), (0, 1, 0), (4,))
    first, second, again = [run for run in found if run.name == "fp64 compiled"]
    assert first.losses == again.losses != second.losses
    assert max(first.distances[-1], second.distances[-1]) < 1e-9


def test_a_way_that_fails_is_told_and_the_others_stand(monkeypatch):
    monkeypatch.setitem(runs.RUN_WAYS, "fp32 eager", runs.RunWay(compiled=True, options={"no such option": 1}))
    found = trajectories(make, batches, ("fp32 eager", YARDSTICK), at_steps=(1,))
    assert [bool(run.stopped) for run in found] == [False, True, False]


def test_time_that_is_spent_and_what_cannot_be_asked():
    late = trajectories(make, batches, ("fp32 eager",), (0, 1), (1,), budget_s=0.0)
    assert {run.seed for run in late} == {0} and late[-1].stopped.startswith("not begun")
    with pytest.raises(ValueError, match="no run is called 'fp8'"):
        trajectories(make, batches, ("fp8",))
    with pytest.raises(ValueError, match="more steps than the 4 batches"):
        trajectories(make, batches, ("fp32 eager",), at_steps=(9,))
