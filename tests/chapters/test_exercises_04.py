"""The exercises on Inductor's code say what is wrong. The notebook's own solutions are checked by nbval."""

import pytest
import torch

from compile_lab.exercises import check


def with_a_matmul(x):
    mean = x @ torch.ones(x.shape[1], 1, device=x.device) / x.shape[1]
    return (x - mean) / x.abs().amax(1, keepdim=True)


def broken(x):
    x = x.sin()
    print("between")
    return x * 2


@pytest.mark.parametrize(
    ("name", "answer", "wrong"),
    [
        ("04.1", "two", "whole number"),
        ("04.1", 3, "fewer than 3"),
        ("04.2", 1, "asks for a function, not int"),
        ("04.2", lambda x: x, "the result is not"),
        ("04.2", with_a_matmul, "it takes 3 kernels"),
        ("04.3", lambda x: x.sin(), "the result is not"),
        ("04.3", lambda x: x.sin().clone() * 2, "Inductor saw through it"),
        ("04.3", broken, "the graph breaks at print"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong_with_it(name, answer, wrong):
    outcome = check(name, answer)
    assert not outcome.passed and wrong in outcome.wrong


@pytest.mark.parametrize(
    ("name", "answer"), [("04.1", 2), ("04.2", lambda x: (x - x.mean(1, keepdim=True)) / x.abs().amax(1, keepdim=True))]
)
def test_a_right_answer_passes(name, answer):
    assert check(name, answer).passed
