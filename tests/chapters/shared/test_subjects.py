"""The recordings' subjects: models that fit their tokens, the same each time."""

import pytest
import torch

from chapters.shared import subjects
from compile_lab.devices import ranks


def test_minigpt_and_its_tokens_fit_each_other():
    model = subjects.minigpt()
    given, targets = subjects.tokens(model, 3, 8)
    assert given.shape == targets.shape == (3, 8) and torch.equal(given[:, 1:], targets[:, :-1])
    assert model(given, targets).isfinite()
    assert subjects.tokens(model, 2)[0].shape == (2, model.config.context)
    small = subjects.minigpt(vocabulary=17)
    assert small(subjects.tokens(small, 1, 8)[0]).shape == (1, 8, 17)
    with pytest.raises(ValueError, match="the configs are mini, "):
        subjects.minigpt("gpt5")


def test_the_same_weights_and_tokens_each_time():
    first, second = subjects.minigpt(), subjects.minigpt()
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    assert torch.equal(subjects.tokens(first, 2)[0], subjects.tokens(second, 2)[0])


def test_a_block_of_gpt2_runs():
    with pytest.raises(ValueError, match="dim=7: GPT-2's heads are 64 wide, so dim is a multiple of 64"):
        subjects.gpt2_block(dim=7)
    block = subjects.gpt2_block(dim=128)
    out = block(torch.randn(2, 8, 128))
    assert (out[0] if isinstance(out, tuple) else out).shape == (2, 8, 128)


def first_losses() -> dict[str, float]:
    """In bfloat16, of this rank's rows; one row each, so that every rank's is the same."""
    losses = {}
    for pattern in ("one device", "fsdp", "tp", "pp"):
        model = subjects.minigpt()
        given = [part.repeat(2, 1) for part in subjects.tokens(model, 1, 8)]
        mesh = {} if pattern == "one device" else {{"fsdp": "shard"}.get(pattern, pattern): 2}
        step, groups = subjects.parallel_step(model, pattern, mesh, microbatches=2, dtype=torch.bfloat16)
        losses[pattern] = step(*given).item()
        assert all(parameter.grad is not None for group in groups for parameter in group["params"])
    return losses


def test_a_step_of_each_pattern_has_the_loss_of_one_device():
    first, last = ranks.run(first_losses, 2)
    assert first.pop("pp") == 0  # the last stage has it
    for losses in (first, last):
        assert list(losses.values()) == pytest.approx([losses["one device"]] * len(losses), abs=0.02)
