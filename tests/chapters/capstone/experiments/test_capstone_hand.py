"""What more a schedule by hand can have: each change has the gradients of its rung."""

import pytest

from capstone.hand.fp8 import Fp8Step
from capstone.hand.step import HandStep
from chapters.capstone.experiments import capstone_hand
from chapters.shared import capstone_view, subjects
from compile_lab import recordings

LOSSES = ("capstone_losses", "capstone_seeds", "capstone_head_seeds", "capstone_short_seeds")


@pytest.mark.slow
def test_each_change_is_timed_and_judged_beside_the_peer(peer):
    found = capstone_hand.record("cpu", peer=peer)
    assert not found["stopped"] and not found["matmuls"]
    rows = {row["name"]: row for row in found["rungs"]}
    assert list(rows) == ["peer, compiled", *capstone_hand.CHANGES]
    assert all(0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] for row in rows.values())
    errors = {name: row["gradient_error"] for name, row in rows.items() if name != "peer, compiled"}
    in_bf16 = [errors.pop(name) for name in ("hand", "tuned", "gelu", "gelu backward", "stream")]
    assert max(in_bf16) < 0.01 < errors["all fp8"] < errors["fp8 + head"] < 0.1


def test_what_recordings_are_compared_in_can_be_compared():
    results = [recordings.load(name).result for name in LOSSES]
    assert len({each["text"] for each in results}) == 1, "losses of other texts cannot be compared"
    by_hand, peers = (recordings.load(name).result for name in ("capstone_hand", "capstone_peers"))
    assert not by_hand["stopped"] and set(capstone_view.rungs(by_hand)) == set(capstone_hand.CHANGES)
    assert all(found <= limit for found, limit in by_hand["verified"].values())
    assert "front end" in peers["attention"], "without it each step by hand copies attention's gradients"


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
