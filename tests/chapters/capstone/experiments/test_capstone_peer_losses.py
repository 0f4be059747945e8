"""A peer's ways trained on a CPU, with what this machine lacks told; what is said of the recording."""

import math
from dataclasses import replace
from importlib.util import find_spec

import pytest

from chapters.capstone.experiments import capstone_peer_losses, capstone_peer_losses_view
from compile_lab import recordings

from .test_capstone import PEER


@pytest.mark.slow
def test_the_peers_ways_are_trained_with_three_seeds_each(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(PEER)
    found = capstone_peer_losses.record("cpu", peer=path, budget_s=math.inf)
    curves = {(curve["name"], curve["seed"]): curve["losses"] for curve in found["curves"]}
    assert {("peer, compiled", seed) for seed in range(3)} <= set(curves) and len(curves) % 3 == 0
    assert len({tuple(losses) for losses in curves.values()}) == len(curves)
    rows = {row["name"]: row for row in found["rungs"]}
    assert all(rows[name]["median_ms"] > 0 for name in ("peer", "peer, compiled"))
    lacking = set() if find_spec("torchao") else {"peer, float8", "peer, float8 by rows"}
    lacking |= set() if find_spec("liger_kernel") else {"peer, Liger, eager"}
    assert lacking <= {row["name"] for row in found["stopped"]}


def test_without_a_peer_nothing_is_measured():
    found = capstone_peer_losses.record("cpu")
    assert found["rungs"] == found["curves"] == found["stopped"] == []


def test_what_is_said_of_the_recording_adds_up():
    recording = recordings.load("capstone_peer_losses")
    liger, losses = capstone_peer_losses_view.text(recording)
    rows = {row["name"]: row for row in recording.result["rungs"]}
    assert f"{rows['peer, Liger, eager']['median_ms']:.1f} ms instead of {rows['peer']['median_ms']:.1f}" in liger
    assert rows["peer, Liger, eager"]["peak_nbytes"] < 0.5 * rows["peer"]["peak_nbytes"]
    assert rows["peer, Liger, eager"]["gradient_error"] == pytest.approx(rows["peer"]["gradient_error"], rel=0.01)
    assert losses.startswith("3 seeds of the compiled peer") and losses.endswith("the spread of the peer's seeds.")


def test_a_ways_last_losses_are_compared_with_the_seeds():
    recording = recordings.load("capstone_peer_losses")
    levels = {("peer, compiled", 0): 4.0, ("peer, compiled", 1): 4.02}
    levels |= {("peer, float8", 0): 4.04, ("peer, float8", 1): 4.06}
    curves = [{"name": name, "seed": seed, "losses": [9.0] * 50 + [at] * 50} for (name, seed), at in levels.items()]
    made = replace(recording, result=recording.result | {"curves": curves, "stopped": []})
    _, losses = capstone_peer_losses_view.text(made)
    assert losses.startswith("2 seeds of the compiled peer end 0.0200 nats apart.")
    assert losses.endswith("float8 +0.0400. Outside the spread of the peer's seeds is float8.")


def test_what_was_stopped_is_named_with_its_reason():
    recording = recordings.load("capstone_peer_losses")
    stopped = [{"name": name, "part": "losses", "stopped": "not begun"} for name in ("peer, compiled", "peer, float8")]
    *_, left = capstone_peer_losses_view.text(replace(recording, result=recording.result | {"stopped": stopped}))
    assert left == "Not measured: losses of peer, compiled; peer, float8 (not begun)."
