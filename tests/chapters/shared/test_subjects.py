"""The recordings' subjects, each pattern's training step beside one device's."""

import pytest
import torch

from chapters.shared import subjects
from compile_lab.devices import ranks


def test_targets_are_the_tokens_that_follow():
    given, targets = subjects.tokens(subjects.minigpt(), 3, 8)
    assert given.shape == targets.shape == (3, 8) and torch.equal(given[:, 1:], targets[:, :-1])


def test_another_config_and_a_width_of_no_whole_heads_are_refused():
    with pytest.raises(ValueError, match="the configs are mini, "):
        subjects.minigpt("gpt5")
    with pytest.raises(ValueError, match="dim=7: GPT-2's heads are 64 wide, so dim is a multiple of 64"):
        subjects.gpt2_block(dim=7)


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
