"""The A/B check: what it says of steps whose times are known, and that a training ends with it, unchanged."""

from types import SimpleNamespace

import pytest
import torch

from mini_model import ab
from mini_model import model as shapes
from mini_model.ab import ABCheck, check
from mini_model.loop import Settings
from mini_model.model import GPTConfig
from mini_model.train import main, train


@pytest.fixture
def taking(monkeypatch):
    """Steps that take these seconds, call by call, and the last from then on, by a clock that nothing else moves."""
    now = [0.0]
    monkeypatch.setattr(ab, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def steps(*seconds):
        ahead = iter(seconds)

        def step():
            now[0] += next(ahead, seconds[-1])

        return step

    return steps


def test_a_faster_step_pays_after_its_cost_over_its_saving(taking):
    unsteady = taking(0.5, 0.02, 0.018, 0.022, 0.02, 0.019, 0.021, 0.02)  # the first is to warm up
    found = check(unsteady, taking(0.005), steps=1000, first_s=1.505, pairs=7)
    assert (found.compile_s, found.eager_ms, found.saved_ms) == pytest.approx((1.5, 20, 15))
    assert 13 <= found.low_ms < 15 < found.high_ms <= 17.001
    assert "it paid" in str(found) and "1,000" in str(found)
    assert "it has not paid" in str(check(taking(0.02), taking(0.005), steps=5, first_s=1.5, pairs=7))


def test_what_cannot_be_told_apart_and_what_is_slower_is_said_so(taking):
    assert "never pays" in str(check(taking(0.002), taking(0.01), steps=10, first_s=1, pairs=5))
    unsure = ABCheck(compile_s=1, eager_ms=30, saved_ms=0.1, low_ms=-0.2, high_ms=0.3, steps=10)
    assert "was not told apart" in str(unsure) and "nothing shows" in str(unsure)


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
