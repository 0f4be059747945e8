"""What an optimizer remembers is that of the reader's own, as one step of it says."""

import pytest
import torch
from torch import nn

from compile_lab.report.captured import ReportOptions, captured
from compile_lab.report.given import given
from compile_lab.report.graph_cards import memory_card
from compile_lab.report.optimizer import optimizer_state
from compile_lab.report.questions import QUESTIONS

PARAMETERS = 4 * (64 * 32 + 32)
"""Bytes of a Linear(64, 32)."""
PARTS = ("trace", "state", "graphs", "memory", "eager")


def of(make):
    torch.manual_seed(0)
    model = nn.Linear(64, 32)
    return given(model, torch.ones(8, 64), make(model.parameters()) if make else None)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (None, 2 * PARAMETERS),
        (lambda p: torch.optim.AdamW(p, amsgrad=True), 3 * PARAMETERS),
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), PARAMETERS),
        (lambda p: torch.optim.Adafactor(p), 4 * (64 + 32 + 32)),  # a row and a column of the matrix, the bias whole
    ],
)
def test_bytes_are_those_after_a_step_of_the_same_optimizer(make, expected):
    subject = of(make)
    assert optimizer_state(subject).nbytes == expected
    if make:  # and of a real step
        subject.loss(*subject.args).backward()
        subject.optimizer.step()
        kept = [v for each in subject.optimizer.state.values() for v in each.values() if isinstance(v, torch.Tensor)]
        assert sum(v.numel() * v.itemsize for v in kept if v.ndim) == expected


def test_what_is_not_known_is_said_and_not_graded():
    subject = of(lambda p: torch.optim.LBFGS(p))
    card = memory_card(captured(subject, ReportOptions(limit_s=600), only=PARTS))
    assert "What LBFGS remembers is not in it: a step of it on zeros raised TypeError" in card.verdict
    assert card.severity == "look"
    words = given(nn.Embedding(100, 8, sparse=True), torch.arange(10))
    assert optimizer_state(words).why.startswith("AdamW takes no sparse gradients")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("make", "called"),
    [
        (lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.1)), "betas"),
        (lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1), momentum=0.9), "momentum"),
    ],
)
def test_a_momentum_that_a_scheduler_cycles_compiles_again_though_the_rate_is_a_tensor(make, called):
    subject = of(make)
    torch.optim.lr_scheduler.OneCycleLR(subject.optimizer, 0.1, total_steps=10)
    found = captured(subject, ReportOptions(limit_s=600), only=("rates", "momentum"))
    assert not any(found.rates[1]) and found.momentum[0] == called and any(found.momentum[1])
    told = QUESTIONS["momentum_that_cycles"](found)
    assert "cycle_momentum=False" in told.cure and f"`{called}`" in told.told
