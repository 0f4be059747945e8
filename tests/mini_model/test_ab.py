"""The A/B check: what it says of steps whose times are known, and that a training ends with it, unchanged."""

import time

import pytest
import torch

from mini_model import model as shapes
from mini_model.ab import ABCheck, check
from mini_model.loop import Settings
from mini_model.model import GPTConfig
from mini_model.train import main, train


def asleep(seconds: float):
    return lambda: time.sleep(seconds)


def test_a_faster_step_pays_after_its_cost_over_its_saving():
    found = check(asleep(0.02), asleep(0.005), steps=1000, first_s=1.505, pairs=7)
    assert found.compile_s == pytest.approx(1.5, abs=0.02)
    assert 0 < found.low_ms <= found.saved_ms <= found.high_ms and found.saved_ms == pytest.approx(15, abs=5)
    assert "it paid" in str(found) and "1,000" in str(found)
    assert "it has not paid" in str(check(asleep(0.02), asleep(0.005), steps=5, first_s=1.5, pairs=7))


def test_what_cannot_be_told_apart_and_what_is_slower_is_said_so():
    assert "never pays" in str(check(asleep(0.002), asleep(0.01), steps=10, first_s=1, pairs=5))
    unsure = ABCheck(compile_s=1, eager_ms=30, saved_ms=0.1, low_ms=-0.2, high_ms=0.3, steps=10)
    assert "could not be told" in str(unsure) and "nothing shows" in str(unsure)


def test_a_first_step_that_was_not_timed_is_timed():
    calls = []

    def compiled():
        time.sleep(0.1 if not calls else 0.001)
        calls.append(1)

    assert check(asleep(0.001), compiled, steps=1, pairs=5).compile_s == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("given", [{"steps": 0}, {"steps": 5, "pairs": 4}])
def test_too_little_is_refused(given):
    with pytest.raises(ValueError, match="at least 1 step is judged, by at least 5 pairs"):
        check(asleep(0), asleep(0), **given)


@pytest.mark.slow
def test_a_compiled_training_ends_with_the_check_and_with_the_same_weights(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(shapes.CONFIGS, "tiny", GPTConfig(vocabulary=600, context=16, dim=16, layers=1, heads=2))
    settings, told = Settings("tiny", steps=4, batch=2), []
    plain = train(settings, mode="default")
    checked = train(settings, mode="default", tell=told.append)
    assert len(told) == 1 and told[0].steps == 4 and told[0].eager_ms > 0
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), checked.parameters(), strict=True))
    assert all(weight.grad is None for weight in checked.parameters())
    train(settings, mode="eager", tell=told.append)
    assert len(told) == 1, "an eager training has nothing to compare"
    command = ["--config", "tiny", "--steps", "4", "--batch", "2", "--device", "cpu", "--mode", "default"]
    assert main(command) == 0 and "was it worth it?  compiling took" in capsys.readouterr().out
    assert main([*command, "--no-ab"]) == 0 and "worth it" not in capsys.readouterr().out
