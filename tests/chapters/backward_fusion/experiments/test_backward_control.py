"""The control of the fused backward: chains of one size that differ in arithmetic or reductions, and a shared table."""

import json

import pytest

from chapters.backward_fusion.experiments.backward_control import CONTROLS, WAYS, record
from chapters.backward_fusion.experiments.fused_chain import CHAINS

pytestmark = pytest.mark.processes


@pytest.mark.slow
def test_a_chain_is_measured_in_both_precisions_and_the_shared_tables_gradient_is_right():
    """On a CPU no kernel reduces both ways: pytorch#193061 is a fault of the Triton code."""
    tried = record("cpu", chains=("norm of relu",))
    assert json.loads(json.dumps(tried)) == tried and tried["left_out"] == []
    assert [(case["chain"], case["dtype"]) for case in tried["cases"]] == [
        ("norm of relu", "bf16"),
        ("norm of relu", "fp32"),
    ]
    assert max(tried["cases"][1]["variants"]["compiled"]["errors"].values()) < 1e-5
    assert [row["way"] for row in tried["tables"]] == ["eager", *WAYS]
    assert all(row["error"] < 1e-5 for row in tried["tables"])
    assert set(CONTROLS) <= set(CHAINS)


@pytest.mark.slow
def test_a_chain_that_fails_is_told_and_the_others_are_measured():
    found = record("cpu", chains=("norm of nothing",))
    assert found["cases"] == [] and len(found["left_out"]) == 2 and "KeyError" in found["left_out"][0]
