"""The exercises of chapter 10: what is wrong with an answer is said. Its solutions are checked by nbval."""

import torch
from answers import judged_as


def with_a_scale_for_each_row(x):
    scale = x.abs().amax(1, keepdim=True) / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("10.1", lambda weight, update: False, "stays as it is, and yours says False"),
    ("10.2", lambda gradients: 2.0**-10, "would still be safe"),
    ("10.2", lambda gradients: 65504 / max(g.abs().max().item() for g in gradients), "no power of two"),
    ("10.3", lambda x: (x.bfloat16(), 1.0), "the values are torch.bfloat16"),
    ("10.3", with_a_scale_for_each_row, "return one scale"),
    ("10.4", (400, 400), "in one region"),
    ("10.4", (50, 50), "each region begins without copies"),
    ("10.4", 50, "two numbers"),
)


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


def collected_until_it_counts(weight, carry, update):
    carry = carry + update.bfloat16()
    return weight + carry, torch.where(weight + carry == weight, carry, 0.0)


class Master:
    def __init__(self):
        self.master = None

    def __call__(self, weight, carry, update):
        self.master = (weight.float() if self.master is None else self.master) + update
        return self.master.bfloat16(), carry


test_a_sum_that_is_nearly_right_is_told_for_which_weight_it_is_off = judged_as(
    (lambda w, c, u: (w + u, c), "the weight is torch.float32: two bytes each"),
    (fast_sum, "goes up and down by 0.03 it is off by 1.22 steps of bf16 at update 2"),
    (knuth, "steps of bf16 at update"),
    (collected_until_it_counts, "steps of bf16 at update"),
    (Master(), "a weight of −300 and updates of 0.07 it is off by"),
    (lambda w, c, u: w, "two tensors of the weight's shape"),
    (lambda w, c, u: (w * float("nan"), c), "off by nan steps"),
    name="10.5",
)
