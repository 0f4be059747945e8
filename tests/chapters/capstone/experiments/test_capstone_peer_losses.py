"""A peer's ways trained on a CPU, with what this machine lacks told."""

import math
from importlib.util import find_spec

import pytest

from chapters.capstone.experiments import capstone_peer_losses


@pytest.mark.slow
def test_the_peers_ways_are_trained_with_three_seeds_each(peer):
    found = capstone_peer_losses.record("cpu", peer=peer, budget_s=math.inf)
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
