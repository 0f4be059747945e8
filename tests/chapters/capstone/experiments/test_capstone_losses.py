"""Long losses: a run is told, or why not; the rate's three parts; which seeds are asked for."""

import math

import pytest

from chapters.capstone.experiments import capstone_losses, capstone_losses_view
from chapters.capstone.experiments.capstone_losses import LR, WARM_UP, rate
from chapters.registry import measure
from chapters.shared import subjects


@pytest.mark.slow
def test_each_rung_and_seed_is_trained_on_text_or_told(monkeypatch):
    monkeypatch.setitem(capstone_losses.STEPS, "cpu", 10)
    found = capstone_losses.record("cpu", rungs=("hand", "no rung"), seeds=(0, 1))
    assert [(run["rung"], run["seed"]) for run in found["runs"]] == [("hand", 0), ("hand", 1)]
    assert [each["stopped"] for each in found["stopped"]] == ["KeyError: 'no rung'"] * 2
    first, second = (run["losses"] for run in found["runs"])
    assert len(first) == 1 and first != second
    assert all(0.8 < loss / math.log(640) < 1.2 for loss in first + second)
    assert found["runs"][0]["validation_loss"] != found["runs"][1]["validation_loss"]


def test_what_would_begin_too_late_is_told(monkeypatch):
    monkeypatch.setattr(capstone_losses.subjects, "capstone_text", lambda files, length: type("", (), {"name": "t"}))
    found = capstone_losses.record("cpu", budget_s=-1.0)
    assert not found["runs"]
    assert len(found["stopped"]) == len(capstone_losses.RUNGS) * len(capstone_losses.SEEDS)


def test_the_rate_goes_up_stays_and_goes_down_to_a_tenth():
    assert rate(0, 2000) == pytest.approx(LR / WARM_UP)
    assert rate(WARM_UP, 2000) == rate(1500, 2000) == LR
    assert rate(1999, 2000) == pytest.approx(0.1 * LR, rel=0.03)
    assert rate(1800, 2000) == pytest.approx((0.1 + 0.9 * 0.5) * LR)


def test_a_rung_without_runs_is_told():
    with pytest.raises(KeyError, match="peer"):
        capstone_losses_view.no_worse({"runs": []}, "peer")
    with pytest.raises(KeyError, match="hand has 0 runs"):
        capstone_losses_view.difference([{"runs": []}], "hand", "peer")


def test_more_seeds_are_asked_of_the_same_study(monkeypatch):
    """Every rung that is held against bf16 has nine seeds, each of them once."""
    asked: dict[str, list[int]] = {}

    def record(device, progress, *, rungs, seeds):
        for rung in rungs:
            asked.setdefault(rung, []).extend(seeds)

    monkeypatch.setattr(capstone_losses, "record", record)
    for name in ("capstone_seeds", "capstone_head_seeds", "capstone_short_seeds"):
        measure(name, "cuda")
    first = dict.fromkeys(capstone_losses.RUNGS, capstone_losses.SEEDS)
    assert all(sorted([*first.get(rung, ()), *seeds]) == [*range(9)] for rung, seeds in asked.items())
    assert set(asked) == {"hand", "all fp8", "fp8, short sums", "fp8 + head"} <= set(subjects.capstone_rungs())
