"""Programs that draw random numbers: eager and compiled code draw the same ones, also where a forward runs twice."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from compile_lab.judge import gradients
from compile_lab.judge.judging import Judged, subject_of

pytestmark = pytest.mark.processes


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_a_program_that_draws_random_numbers_is_told_from_one_that_does_not():
    cases = {nn.Dropout(0.5): True, nn.Dropout(0.5).eval(): False, nn.Linear(8, 8): False}
    for model, draws in cases.items():
        before = torch.get_rng_state()
        assert subject_of(model, drawn(4, 8), None, 0).draws() == draws, model
        assert torch.equal(torch.get_rng_state(), before)
    assert subject_of(nn.Dropout(0.5).eval(), drawn(4, 8), lambda model: model.train(), 0).draws(), "the second call"
    assert "draw random numbers" in str(Judged((), {}, drawn=True)) and str(Judged((), {})) == ""


@pytest.mark.slow
def test_dropout_for_a_chip_is_judged_by_eagers_draws():
    found = gradients(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), drawn(4, 8), chip="H200", seed=5)
    assert found.wrong == () and not found.refused and len(found.verdicts) == 3
    assert str(found).splitlines()[-1].startswith("not judged: kernels that draw random numbers themselves")


class Recomputed(nn.Module):
    """Dropout in a block that the backward runs again; ``preserved``: with the random numbers of the forward."""

    def __init__(self, preserved: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.block = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 8))
        self.preserved = preserved

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=self.preserved)


def test_dropout_under_checkpointing_drops_the_same_in_the_forward_that_runs_again():
    found = gradients(Recomputed(True), drawn(4, 8), seed=5)
    assert found.wrong == () and not found.refused, found
