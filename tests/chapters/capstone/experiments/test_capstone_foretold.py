"""The capstone on more GPUs, predicted: what it is made of, and that the stored prediction is what the rules say."""

import pytest

from chapters.capstone.experiments import capstone_foretold
from chapters.capstone.experiments.capstone_foretold import DEVICES, record
from compile_lab import recordings


@pytest.fixture(scope="module")
def rows():
    return record("cpu")["rows"]


@pytest.fixture(scope="module")
def found(rows):
    return {(row["rung"], row["pattern"], row["ranks"]): row for row in rows}


def test_one_gpu_is_the_recorded_one_and_each_further_number_keeps_less_speed(found):
    for rung in capstone_foretold.RUNGS:
        (measured,) = [row["median_ms"] for row in recordings.load("capstone").result["rungs"] if row["name"] == rung]
        assert found[rung, "one device", 1]["ms"] == pytest.approx(measured, abs=1e-3)
        for pattern in capstone_foretold.PATTERNS:
            kept = [found[rung, pattern, n]["kept"] for n in DEVICES[1:]]
            assert 1 > kept[0] >= kept[1] >= kept[2]
            assert kept[1] > 0.5
        far = {pattern: found[rung, pattern, 1024]["kept"] for pattern in capstone_foretold.PATTERNS}
        assert far["ddp"] > 0.75 > 0.5 > far["fsdp"], "a small model's gathers wait for the steps of their rings"


def test_a_step_is_the_longer_of_what_device_and_program_need(found):
    for row in found.values():
        assert row["ms"] == max(row["device_ms"], row["issued_ms"])
        assert row["kept"] * row["ms"] == pytest.approx(found[row["rung"], "one device", 1]["ms"], rel=1e-3)


def test_the_stored_prediction_was_made_by_these_rules_from_recordings_that_were_there(rows):
    stored = recordings.load("capstone_foretold")
    assert stored.result["rows"] == rows
    assert all(date <= stored.provenance.date for date in stored.result["from"].values())
