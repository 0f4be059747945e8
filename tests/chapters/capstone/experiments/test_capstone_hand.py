"""What more a schedule by hand can have: each change has the gradients of its rung; what is said of the recording."""

import pytest

from capstone.hand.fp8 import Fp8Step
from capstone.hand.step import HandStep
from chapters.capstone.experiments import capstone_hand, capstone_hand_view
from chapters.shared import capstone_view, subjects
from compile_lab import recordings

from .test_capstone import PEER

LOSSES = ("capstone_losses", "capstone_seeds", "capstone_head_seeds", "capstone_short_seeds")


@pytest.mark.slow
def test_each_change_is_timed_and_judged_beside_the_peer(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(PEER)
    found = capstone_hand.record("cpu", peer=path)
    assert not found["stopped"] and not found["matmuls"]
    rows = {row["name"]: row for row in found["rungs"]}
    assert list(rows) == ["peer, compiled", *capstone_hand.CHANGES]
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in rows.values())
    errors = {name: row["gradient_error"] for name, row in rows.items() if name != "peer, compiled"}
    in_bf16 = [errors.pop(name) for name in ("hand", "tuned", "gelu", "gelu backward", "stream")]
    assert max(in_bf16) < 0.01 < errors["all fp8"] < errors["fp8 + head"] < 0.1


def test_every_change_is_compared_with_one_before_it():
    names = list(capstone_hand.CHANGES)
    for at, (name, change) in enumerate(capstone_hand.CHANGES.items()):
        assert change.against in names[: at + 1] and (change.predicted_ms < 0) == (change.against != name)


def test_what_is_said_of_the_recording_adds_up():
    recording = recordings.load("capstone_hand")
    results = [recordings.load(name).result for name in LOSSES]
    assert len({each["text"] for each in results}) == 1, "losses of other texts cannot be compared"
    rows = capstone_view.rungs(recording.result)
    assert not recording.result["stopped"] and set(rows) == set(capstone_hand.CHANGES)
    assert all(found <= limit for found, limit in recording.result["verified"].values())
    assert capstone_hand_view.outcome(recording, "gelu backward") == capstone_hand_view.LONGER
    assert capstone_hand_view.outcome(recording, "stream") == capstone_hand_view.ALIKE
    assert 1.24 < capstone_hand_view.ratio(recording, "tuned") < 1.25
    assert capstone_hand_view.picture(recording).title
    peers = recordings.load("capstone_peers")
    assert "front end" in peers.result["attention"], "without it each step by hand copies attention's gradients"
    first, bf16, fp8, again = capstone_hand_view.text(recording, results, peers)
    assert "becomes longer with gelu backward" in first and "1.244" in bf16
    assert "1.480 times" in fp8 and "fp8, short sums ends −0.8 thousandths of a nat from bf16" in fp8
    assert "tuned was 1.229 times" in again and "fp8, short sums 1.467 times" in again and "1 % apart" in again
    assert fp8.count("**not told apart**") == 1 and fp8.count("**told apart**") == 2, "it is the head that has a price"


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        (HandStep, {"tuned": True}, "only matmuls of bfloat16 on a GPU"),
        (HandStep, {"epilogues": ("gelu backward",)}, "ask for both"),
        (HandStep, {"epilogues": ("relu",)}, "relu"),
        (Fp8Step, {"epilogues": ("gelu",)}, "two forms"),
        (Fp8Step, {"fast": ("head",)}, "head"),
    ],
)
def test_what_does_not_go_together_is_refused(kind, options, word):
    with pytest.raises(ValueError, match=word):
        kind(subjects.capstone_model(640), 4, 16, **options)
