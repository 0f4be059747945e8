"""The recording of what fits, tried on a CPU with two layers; and its pictures."""

import math

import pytest
import torch

from chapters.simple_fsdp.experiments import memory_fits, memory_fits_view
from compile_lab import recordings


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(memory_fits, "LAYERS", 2)
    monkeypatch.setattr(memory_fits, "STEPS", 3)


@pytest.mark.slow
def test_every_way_is_the_same_training(small):
    found = memory_fits.record("cpu", budget_s=math.inf)
    losses = {way["way"]: way["losses"] for way in found["ways"]}
    compiled = {"budget 1", "budget 0.5", "in parts, compiled", "in halves, compiled"}
    assert set(losses) == {"in parts", "eager", "every layer"} | compiled
    for way in losses.values():
        assert way == pytest.approx(losses["eager"], abs=5e-3)
    assert not any(way["stopped"] for way in found["ways"])


@pytest.mark.slow
def test_a_way_that_does_not_fit_is_told_and_the_others_go_on(small, monkeypatch):
    whole = memory_fits._whole

    def made(way):
        def failing(model):
            def backward(*_):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. Process 7 has it")

            return backward

        return failing if way == memory_fits.NONE else whole(way)

    monkeypatch.setattr(memory_fits, "_whole", made)
    monkeypatch.setattr(memory_fits, "WAYS", (memory_fits.NONE, memory_fits.EVERY_LAYER))
    ways = {way["way"]: way for way in memory_fits.record("cpu", budget_s=math.inf)["ways"]}
    assert ways["eager"]["stopped"] == "CUDA out of memory. Tried to allocate 2 GiB."
    assert not ways["eager"]["losses"] and len(ways["every layer"]["losses"]) == 3


def test_no_way_begins_after_the_time_given(small):
    found = memory_fits.record("cpu", budget_s=-1)
    assert all(way["stopped"].startswith("not begun") for way in found["ways"])


def test_a_way_that_did_not_fit_has_no_step():
    ways = recordings.load("memory_fits").result["ways"]
    with pytest.raises(ValueError, match="'eager' has no two steps"):
        memory_fits_view.step_ms(next(way for way in ways if way["way"] == "eager"))
