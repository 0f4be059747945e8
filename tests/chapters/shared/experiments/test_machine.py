"""The rates of a machine: tried on a CPU here, and asked as they would be on a GPU."""

import pytest
import torch

from chapters.shared.experiments import machine
from chapters.shared.experiments.machine import record
from compile_lab.measure import timing

SMALL = {"copy_nbytes": [1 << 20], "matrix_sizes": [32, 64], "rest_s": 0.0}


def test_rates_are_medians_within_their_spread_and_the_precision_setting_is_put_back():
    seen, before = [], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        result = record("cpu", lambda steps: seen.extend(steps) or steps, **SMALL)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [("copy", 1 << 20), ("fp32", 32), ("fp32", 64)]
    found = [one["bytes_per_s"] for one in result["copy"]]
    found += [one[key] for one in result["matmul"] for key in ("burst_tflop_per_s", "sustained_tflop_per_s")]
    assert len(found) == 5
    for rate in found:
        assert 0 < rate["low"] <= rate["median"] <= rate["high"]


def test_a_copy_counts_what_it_reads_and_what_it_writes(monkeypatch):
    monkeypatch.setattr(timing, "durations_ms", lambda call, device, repeats: [1.0] * repeats)
    result = record("cpu", **SMALL)
    assert result["copy"][0]["bytes_per_s"]["median"] == pytest.approx(2 * (1 << 20) / 1e-3, rel=1e-4)
    assert result["matmul"][1]["sustained_tflop_per_s"]["median"] == pytest.approx(2 * 64**3 / 1e-3 / 1e12, rel=1e-4)


@pytest.mark.parametrize(
    ("capability", "asked"), [((7, 5), ["fp32", "fp16"]), ((9, 0), ["fp32", "tf32", "bf16", "fp16"])]
)
def test_a_chip_is_asked_only_for_precisions_that_it_has(monkeypatch, capability, asked):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert machine._precisions(torch.device("cuda")) == asked


def test_copies_fit_into_the_memory_that_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (15 << 30, 16 << 30))
    assert machine._fitting(machine.COPY_NBYTES["cuda"], torch.device("cuda")) == [256 << 20, 1 << 30]
