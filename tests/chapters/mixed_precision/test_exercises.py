"""The exercises of chapter 10: what is wrong with an answer is said. Its solutions are checked by nbval."""

import pytest
import torch

from chapters.exercises import check
from compile_lab.precision.formats import quantised, stochastically_rounded


def lost_if_half_a_step_of_one(weight, update):
    return abs(update) <= 2**-8


def lost_by_rounding_the_update_too(weight, update):
    step = torch.tensor(update, dtype=torch.bfloat16)
    return bool(torch.tensor(weight, dtype=torch.bfloat16) * 2 + step == torch.tensor(weight, dtype=torch.bfloat16) * 2)


def with_a_scale_for_each_row(x):
    scale = x.abs().amax(1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("10.1", lost_if_half_a_step_of_one, "a weight of"),
        ("10.1", lost_by_rounding_the_update_too, "does change, and yours says True"),
        ("10.1", lambda weight, update: False, "stays as it is, and yours says False"),
        ("10.1", True, "asks for a function, not bool"),
        ("10.2", lambda gradients: 65536.0, "a scale of 65536 makes one infinite"),
        ("10.2", lambda gradients: 2.0**-10, "would still be safe"),
        ("10.2", lambda gradients: 65504 / max(g.abs().max().item() for g in gradients), "no power of two"),
        ("10.3", lambda x: (x.to(torch.float8_e4m3fn), 1.0), "for numbers around 0.0001 the error is"),
        ("10.3", lambda x: (x.bfloat16(), 1.0), "the values are torch.bfloat16"),
        ("10.3", with_a_scale_for_each_row, "one scale is asked"),
        ("10.4", (400, 400), "in one region"),
        ("10.4", (50, 50), "each region begins without copies"),
        ("10.4", 50, "two numbers"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome


def test_right_answers_pass():
    assert check("10.3", quantised).passed
    assert check("10.4", (50, 400)).passed


def carried(weight, carry, update):
    exact = weight.double() + carry.double() + update.double()
    weight = exact.bfloat16()
    return weight, (exact - weight).bfloat16()


def fast_sum(weight, carry, update):
    """The textbook's sum, all in bf16: right as long as the update is smaller than the weight."""
    change = update.bfloat16() + carry
    added = weight + change
    return added, change - (added - weight)


def knuth(weight, carry, update):
    """Knuth's sum, which does not ask which of the two is larger, all in bf16: it rounds the update first."""
    change = update.bfloat16() + carry
    added = weight + change
    part = added - weight
    return added, (weight - (added - part)) + (change - part)


def with_the_wrong_sign(weight, carry, update):
    added, carry = fast_sum(weight, carry, update)
    return added, -carry


def collected_until_it_counts(weight, carry, update):
    carry = carry + update.bfloat16()
    return weight + carry, torch.where(weight + carry == weight, carry, 0.0)


class Master:
    def __init__(self):
        self.master = None

    def __call__(self, weight, carry, update):
        self.master = (weight.float() if self.master is None else self.master) + update
        return self.master.bfloat16(), carry


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (lambda w, c, u: (w + u.bfloat16(), c), "a weight of 1 and updates of 0.001 it is off by"),
        (lambda w, c, u: (w + u, c), "the weight is torch.float32: two bytes each"),
        (lambda w, c, u: (w, c + u), "the carry is torch.float32: two bytes each"),
        (
            lambda w, c, u: (stochastically_rounded(w.float() + u, torch.Generator().manual_seed(0)), c),
            "a weight of 1 and updates of",
        ),
        (fast_sum, "goes up and down by 0.03 it is off by 1.22 steps of bf16 at update 2"),
        (knuth, "steps of bf16 at update"),
        (with_the_wrong_sign, "steps of bf16 at update"),
        (collected_until_it_counts, "steps of bf16 at update"),
        (Master(), "a weight of −300 and updates of 0.07 it is off by"),
        (lambda w, c, u: w, "two tensors of the weight's shape"),
        (lambda w, c, u: (w * float("nan"), c), "off by nan steps"),
    ],
)
def test_a_sum_that_is_nearly_right_is_told_for_which_weight_it_is_off(answer, wrong):
    outcome = check("10.5", answer)
    assert not outcome.passed and wrong in outcome.wrong, outcome


def test_a_sum_that_carries_what_was_rounded_away_passes():
    assert check("10.5", carried).passed, check("10.5", carried)
