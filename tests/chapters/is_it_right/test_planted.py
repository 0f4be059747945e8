"""Each planted fault spoils one gradient of the compiled step, and nothing else; the judge finds it."""

import pytest
import torch
from torch import nn

from chapters.is_it_right.planted import PLANTED, ROUNDED, planted
from compile_lab._torch.inductor import inductor_config
from compile_lab.judge import gradients


def subject():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16))
    return model, torch.randn(32, 16)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_where_it_was_planted(name):
    with planted(name):
        found = gradients(*subject())
    assert {each.removesuffix(" (second call)") for each in found.wrong} <= {
        "gradient of 0.weight",
        "gradient of 3.weight",
    }
    assert "gradient of 3.weight" in found.wrong and not found.verdicts[0].wrong


@pytest.mark.slow
def test_a_cast_there_and_back_is_a_fault_only_where_casts_are_carried_out():
    with planted(ROUNDED):
        assert not gradients(*subject()).wrong
    with planted(ROUNDED), inductor_config.patch(emulate_precision_casts=True):
        assert "gradient of 3.weight" in gradients(*subject()).wrong


@pytest.mark.processes
def test_what_cannot_be_planted_is_told():
    with pytest.raises(ValueError, match="name"), planted("turned"):
        pass
    with planted("dropped"):
        verdict = gradients(nn.Linear(3, 5), torch.ones(2, 3)).verdicts[-1]
    assert "square" in verdict.raised
