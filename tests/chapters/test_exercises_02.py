"""Chapter 02's checkers: wrong answers are told what is wrong with them, right ones pass."""

import pytest
import torch
from torch import nn

from compile_lab.exercises import check
from compile_lab.exercises.chapter_02 import Decayed


class InTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * 0.9**self.calls


class Forgets(nn.Module):
    def forward(self, x):
        return x * 0.9


def calls(*pairs):
    return [(torch.ones(length), n) for length, n in pairs]


def marked(mark, dim):
    def mark_tokens(tokens):
        getattr(torch._dynamo.decorators, mark)(tokens, dim)
        return tokens

    return mark_tokens


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("02.1", [(torch.ones(4), 2)] * 5, "1 of the calls compile, not three"),
        ("02.1", calls((4, 2)), "1 calls, not five"),
        ("02.1", [torch.ones(4)] * 5, "pairs"),
        ("02.1", [(torch.ones(4), torch.ones(7))] * 5, "call 1 raised"),
        ("02.2", Decayed, "compiled 8 times in 12 calls: self.calls == 0"),
        ("02.2", Forgets, "the result of call 2 is wrong"),
        ("02.2", Decayed(), "asks for the class"),
        ("02.3", lambda tokens: tokens, "2 graphs for 63 lengths. A guard that failed: tensor 'tokens' size mismatch"),
        ("02.3", marked("mark_static", 1), "8 graphs"),
        ("02.3", marked("mark_dynamic", 0), "graphs for 63 lengths"),
        ("02.3", lambda tokens: None, "must return the tokens"),
        ("02.3", lambda tokens: tokens[:, :2], "keep their shape"),
        ("02.4", 1, "more than 1"),
        ("02.4", 6, "fewer than 6"),
        ("02.4", "four", "whole number"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("02.1", calls((4, 2), (5, 2), (6, 2), (7, 3), (8, 4))),
        ("02.2", InTensor),
        ("02.3", marked("mark_dynamic", 1)),
        ("02.4", 4),
    ],
)
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed, check(name, answer)
