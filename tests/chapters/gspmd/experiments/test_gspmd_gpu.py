"""The recording gspmd_gpu, tried with XLA's pipeline for CPUs: what is sent, and what becomes of a child that fails."""

from importlib.util import find_spec

import pytest

from chapters.gspmd.experiments import gspmd_gpu

pytestmark = pytest.mark.skipif(not find_spec("jax"), reason="jax is optional")


@pytest.mark.slow
def test_on_a_cpu_only_the_separate_matmuls_send_more():
    found = gspmd_gpu.record("cpu")
    assert not found["stopped"] and list(found["flags"]) == ["CPU"]
    sent = {each["written"]: each["collectives"] for each in found["programs"]}
    assert list(sent) == list(gspmd_gpu.WRITTEN)
    apart, joined, hand, unforked = (sum(c["payload_nbytes"] for c in each) for each in sent.values())
    assert 2 * unforked == 2 * apart == 3 * joined == 3 * hand == 3 * 4 * 8 * 64 * 64 * 4
    for each in found["programs"]:
        assert each["error"] < 1e-5 and len(each["times_ms"]) == gspmd_gpu.RUNS["cpu"]
        assert len(each["lines"]) == 4 and all("all-reduce" in line for line in each["lines"])


@pytest.mark.slow
def test_a_platform_that_is_not_there_is_told_and_nothing_ends(monkeypatch):
    monkeypatch.setattr(gspmd_gpu, "PIPELINES", {"CPU": ("cpu", "--xla_no_such_flag=1")})
    found = gspmd_gpu.record("cpu")
    assert found["programs"] == [] and list(found["stopped"]) == ["CPU"]
