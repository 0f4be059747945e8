"""Operators, chains and runs against float64: verdicts, doors, what comes back from a recording, and what views say."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.is_it_right.experiments import numerics, numerics_modes
from chapters.is_it_right.rounding import chains
from chapters.is_it_right.rounding.chains import COMPILED, EAGER, EMULATED, chains_judged
from chapters.is_it_right.rounding.operators import OPERATORS, OperatorError, judged
from chapters.is_it_right.rounding.runs import REFERENCE, YARDSTICK, trajectories
from chapters.is_it_right.rounding.together import JudgedCall, compiled_together
from compile_lab import recordings
from compile_lab._torch.opinfo import operators

pytestmark = pytest.mark.processes


def test_a_fused_bf16_chain_is_closer_to_the_truth_and_emulated_casts_make_it_eager(monkeypatch):
    monkeypatch.setattr(chains, "CHAINS", {"pointwise": chains.pointwise})
    eager, compiled, emulated = chains_judged("bf16")
    assert (eager.way, compiled.way, emulated.way) == (EAGER, COMPILED, EMULATED)
    assert compiled.error * 1.1 < eager.error and compiled.error == pytest.approx(compiled.rounding, rel=0.01)
    assert compiled.equal < 1 and emulated.equal == 1 and emulated.error == eager.error


@pytest.mark.slow
def test_each_call_has_its_result_its_kernels_and_its_failure():
    x = torch.arange(6.0).view(2, 3)

    def broken(x):
        raise RuntimeError("not this one")

    calls = [
        JudgedCall("exp", torch.exp, (x,)),
        JudgedCall("broken", broken, (x,)),
        JudgedCall("mm", torch.mm, (x, x.T.clone())),
        JudgedCall("sum", torch.sum, (x + 1,), {"dim": 1}),
    ]
    exp, stopped, mm, summed = compiled_together(calls)
    assert torch.allclose(exp.result, x.exp()) and (exp.written, exp.called) == (True, False)
    assert "Observed exception" in stopped.stopped and stopped.result is None
    assert torch.allclose(mm.result, x @ x.T) and (mm.written, mm.called) == (False, True)
    assert torch.equal(summed.result, (x + 1).sum(1)) and summed.written
    assert compiled_together([]) == []


def test_operators_are_in_torchs_table_and_one_without_error_or_without_a_comparison_has_a_verdict():
    assert set(OPERATORS) <= set(operators())
    exact, none = (OperatorError("exp", "fp32", 1, *errors, 0.1, False) for errors in ((0.0, 0.1), (None, None)))
    assert (exact.verdict, none.verdict) == ("eager closer", "not compared")


@pytest.mark.slow
def test_operators_are_judged_in_bf16_with_the_least_error_as_floor():
    add, mm, softmax = judged(["add", "mm", "softmax"], "bf16")
    assert [add.operator, mm.operator, softmax.operator] == ["add", "mm", "softmax"]
    for row in (add, mm, softmax):
        assert not row.stopped and 1e-3 < row.rounding < 4e-3 and row.rounding <= row.eager * 1.001
    assert add.verdict == "bitwise equal" and add.written and mm.called


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: chains_judged(ways=("strict",)), "no way is called 'strict'"),
        (lambda: chains_judged("fp8"), "precision='fp8'"),
        (lambda: judged(["nosuch"]), "no operator 'nosuch'"),
        (lambda: judged(["add"], "fp8"), "precision='fp8'"),
        (lambda: judged(["add"], "tf32"), "on a CPU take"),
        (lambda: trajectories(make, batches, at_steps=(9,)), "more steps than the 4 batches"),
    ],
)
def test_the_doors_name_what_is_wrong(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_rows_come_back_as_they_were_and_a_part_that_fails_is_told(monkeypatch):
    def refused(*_):
        raise RuntimeError("no chain here")

    monkeypatch.setattr(numerics, "chains_judged", refused)
    result = numerics.record("cpu", names=("add",))
    assert result["stopped"] == dict.fromkeys(["chains bf16", "chains fp32"], "RuntimeError: no chain here")
    stored = json.loads(json.dumps(result, allow_nan=False))
    found = numerics.recorded(recordings.Recording("numerics", recordings.here("test", "cpu"), stored))
    assert [(row.operator, row.precision) for row in found.operators] == [("add", "bf16"), ("add", "fp32")]
    assert not found.chains and found.stopped == result["stopped"]


def test_no_part_begins_after_its_time(monkeypatch):
    monkeypatch.setattr(numerics, "LAST_START_S", -1.0)
    result = numerics.record("cpu")
    assert not result["operators"] and all(why.startswith("not begun") for why in result["stopped"].values())


def test_modes_are_not_recorded_by_a_torch_that_has_none(monkeypatch):
    monkeypatch.setattr(numerics_modes, "NEEDS", (99, 0))
    with pytest.raises(RuntimeError, match=r"record this with"):
        numerics_modes.record("cpu")


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x, y):
        made = self.down(self.up(x.to(self.up.weight.dtype)).tanh())
        return F.mse_loss(made.float(), y.float())


def make(seed):
    torch.manual_seed(seed)
    return Regression()


def batches(seed):
    drawn = torch.Generator().manual_seed(seed)
    return [(torch.randn(16, 8, generator=drawn), torch.randn(16, 1, generator=drawn)) for _ in range(4)]


def test_distances_are_from_float64_of_the_same_seed():
    found = trajectories(make, batches, (0, 1), (1, 4))
    by = {(run.name, run.seed): run for run in found}
    assert len(found) == 8 and all(run.steps == (1, 4) and len(run.losses) == 4 for run in found)
    for seed in (0, 1):
        assert by[REFERENCE, seed].distances == (0, 0)
        assert 0 < by["fp32 eager", seed].distances[-1] < 1e-3
        assert by[YARDSTICK, seed].distances != by["fp32 eager", seed].distances
        near = by["fp32 compiled", seed].distances[-1] / by["fp32 eager", seed].distances[-1]
        assert 0.01 < near < 100, "compiled once, and each seed begins from its own weights"
    assert by[REFERENCE, 0].losses != by[REFERENCE, 1].losses
