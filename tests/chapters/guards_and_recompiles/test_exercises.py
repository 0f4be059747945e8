"""Chapter 02's checkers: wrong answers are told what is wrong with them, right ones pass."""

import pytest
import torch
from answers import judged_as
from torch import nn

from chapters.guards_and_recompiles.exercises import weighted
from chapters.guards_and_recompiles.in_page import COMPILED
from compile_lab.dynamo.recompiles import replay

pytestmark = pytest.mark.processes


def calls(*pairs):
    return [(torch.ones(length), n) for length, n in pairs]


def test_torch_compiles_as_often_as_the_judge_of_02_4_says():
    found = replay(weighted, calls((8, 2), (9, 2), (9, 3), (10, 4), (1, 4), (12, 5)))
    assert sum(call.outcome == "compiled" for call in found) == COMPILED


class Forgets(nn.Module):
    def forward(self, x):
        return x * 0.9


def marked(mark, dim):
    def mark_tokens(tokens):
        getattr(torch._dynamo.decorators, mark)(tokens, dim)
        return tokens

    return mark_tokens


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("02.1", calls((4, 2)), "1 calls, not five"),
    ("02.1", [*calls((4, 2)) * 4, (torch.ones(4).double(), 2)], "call 5 is not of a float32 tensor"),
    ("02.1", [*calls((4, 2)) * 4, (torch.ones(4, requires_grad=True), 2)], "in call 5, x is more than a length"),
    ("02.1", calls((4, 2), (5, 2), (6, 2), (7, 3), (8, 4)), "but not the first, third and fifth: compiled, comp"),
    ("02.2", Forgets, "the result of call 2 is wrong"),
    ("02.3", marked("mark_static", 1), "8 graphs"),
    ("02.3", lambda tokens: None, "must return the tokens"),
    ("02.3", lambda tokens: tokens[:, :2], "keep their shape"),
)


def predicted(calls, *, least_size=2, least_n=None, only_newest=False, varied_at_once=True):
    """A right answer to 02.5, and with each switch one that is nearly right."""
    codes, compiled = [], []

    def fits(code, call):
        takes = [each is None or each == value for each, value in zip(code, call, strict=True)]
        small = code[0] is None and call[0] < least_size
        return all(takes) and not small and not (least_n and code[1] is None and call[1] < least_n)

    for call in calls:
        if any(fits(code, call) for code in codes[-only_newest:]):
            continue
        known = [*compiled, call] if varied_at_once else [*compiled[-1:], call]
        compiled.append(call)
        varied = [len({each[at] for each in known}) > 1 for at in range(2)]
        size = None if varied[0] and call[0] >= least_size else call[0]
        n = None if varied[1] and call[1] >= (least_n or call[1]) else call[1]
        codes.append((size, n, call[2]))
    return len(codes)


test_an_account_that_is_nearly_right_is_told_for_which_calls_it_is_wrong = judged_as(
    (len, "torch compiles fewer than 2 times: the same call needs no new code"),
    (lambda calls: predicted(calls, least_size=0), "torch compiles more than 2 times: a size of 1 fits no symbol"),
    (lambda calls: predicted(calls, least_n=2), "fewer than 4 times: an int that has varied takes 0 and 1, too"),
    (lambda calls: predicted(calls, only_newest=True), "fewer than 3 times: a bool is a constant, and earlier code"),
    (lambda calls: predicted(calls, varied_at_once=False), "what has varied stays a symbol in later code"),
    (lambda calls: 2.0, "asks for a whole number"),
    name="02.5",
)
