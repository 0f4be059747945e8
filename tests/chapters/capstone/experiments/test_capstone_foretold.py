"""The capstone on more GPUs, predicted: the stored prediction, which chapter 24 prints, is what the rules say."""

from chapters.capstone.experiments.capstone_foretold import record
from compile_lab import recordings


def test_the_stored_prediction_was_made_by_these_rules_from_recordings_that_were_there():
    stored = recordings.load("capstone_foretold")
    assert stored.result["rows"] == record("cpu")["rows"]
    assert all(date <= stored.provenance.date for date in stored.result["from"].values())
