"""Grouped products: equal to a loop, and judged by float64."""

import torch

from chapters.inference.grouped import (
    judged_by_float64,
    subject,
)


def test_loop_and_product_agree_and_the_judge_sees_a_wrong_answer():
    loop, x = subject(32, 64, 4, 24, "loop")
    grouped, _ = subject(32, 64, 4, 24, "grouped")
    y = grouped(x)
    torch.testing.assert_close(y, loop(x))
    assert judged_by_float64(grouped, x, y) < 0.01 < 0.5 < judged_by_float64(grouped, x, -y)
