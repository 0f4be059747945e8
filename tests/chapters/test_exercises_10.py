"""The exercises of chapter 10: what is wrong with an answer is said. Its solutions are checked by nbval."""

import pytest
import torch

from compile_lab.exercises import check
from compile_lab.precision.formats import quantised


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
