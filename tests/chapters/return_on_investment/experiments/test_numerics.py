"""The recording of numerics: parts that fail or come too late leave the others as they are, and rows come back."""

import json

import pytest

from chapters.return_on_investment.experiments import numerics, numerics_cpu
from compile_lab import recordings

pytestmark = pytest.mark.processes


def test_rows_come_back_as_they_were_and_a_part_that_fails_is_told(monkeypatch):
    def refused(*_):
        raise RuntimeError("no dropout here")

    monkeypatch.setattr(numerics, "dropout_masks", refused)
    result = numerics.record("cpu", parts=("operators", "masks"), names=("add",))
    assert result["stopped"] == {"masks": "RuntimeError: no dropout here"}
    stored = json.loads(json.dumps(result, allow_nan=False))
    found = numerics.recorded(recordings.Recording("numerics", recordings.here("test", "cpu"), stored))
    assert [(row.operator, row.precision) for row in found.operators] == [("add", "bf16"), ("add", "fp32")]
    assert not found.runs and found.stopped == result["stopped"]


def test_no_part_begins_after_its_time(monkeypatch):
    monkeypatch.setitem(numerics.LAST_START_S, "cpu", -1.0)
    result = numerics_cpu.record("cpu")
    assert not result["operators"] and all(why.startswith("not begun") for why in result["stopped"].values())


@pytest.mark.slow
def test_a_short_training_stays_beside_float64():
    runs = numerics.training_runs("cpu", ("fp32 eager", "fp32 eager, + 1 ulp"), 3, (0, 1))
    assert len(runs) == 6 and all(run.distances[-1] < 1e-3 for run in runs)
    assert runs[0].losses != runs[3].losses
