"""Peaks read off Inductor's code, for random programs over torch's own table of operators, against the allocator."""

import random

import pytest
import torch

from compile_lab._torch.opinfo import operators
from compile_lab.inductor import generated_code
from compile_lab.memory import lifetimes

from .programs import differentiable, measured, program

MANY = 220
PART = "lifetimes are computed for one forward and its backward"
"""How a function that breaks, or one that Inductor leaves without a backward, is refused."""


def drawn(count):
    """So many of the operators, drawn once for all."""
    return random.Random(0).sample(differentiable(), count)


def judged(name):
    """The predicted peak and the allocator's, without what an operation takes and gives back itself; None if there is
    no such step, and in words why none is told."""
    if (made := program(name)) is None:
        return None
    run, given = made
    torch.compiler.reset()
    try:
        predicted = lifetimes(generated_code(run, *given)).peak_nbytes
    except ValueError as refused:
        return str(refused)
    return predicted, measured(run, given).between_calls_nbytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cumsum", "nn.functional.layer_norm", "topk", "linalg.eigvals", "float", "index_add"])
def test_one_operator(name):
    assert name in operators()
    predicted, allocated = judged(name)
    assert allocated and predicted == pytest.approx(allocated, rel=0.01)


@pytest.mark.slow
def test_two_hundred_operators():
    """No silent zero, and at least 98 of 100 within 1 %; what is not told is refused in words."""
    found = {name: judged(name) for name in drawn(MANY)}
    refused = {name: why for name, why in found.items() if isinstance(why, str)}
    told = {name: each for name, each in found.items() if isinstance(each, tuple)}
    assert len(told) >= 150
    assert not {name: why for name, why in refused.items() if PART not in why}
    off = {name: (said, seen) for name, (said, seen) in told.items() if abs(said - seen) > 0.01 * seen}
    assert not [name for name, (said, _) in told.items() if said == 0]
    assert len(off) <= 0.02 * len(told), off
