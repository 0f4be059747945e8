"""The judge of errors: by hand on small numbers, against torch's norms, and at what is not finite, empty or 0."""

import math

import pytest
import torch

from compile_lab.measure.judge import (
    gradient_error,
    largest_error,
    largest_relative_error,
    relative_error,
    relative_error_together,
)

EXACT = torch.tensor([3.0, -4.0])
Y = torch.tensor([3.5, -4.0])


def test_the_errors_of_two_numbers_are_those_by_hand():
    assert relative_error(Y, EXACT) == pytest.approx(0.5 / 5)
    assert largest_error(Y, EXACT) == 0.5 and largest_relative_error(Y, EXACT) == 0.5 / 4
    for error in (relative_error, largest_error, largest_relative_error):
        assert error(EXACT, EXACT) == 0.0


def test_rounding_is_judged_in_float64():
    exact = torch.rand(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rounded = exact.bfloat16()
    apart = rounded.double() - exact
    assert relative_error(rounded, exact) == pytest.approx(torch.linalg.vector_norm(apart).item() / exact.norm().item())
    assert 0 < relative_error(rounded, exact) < 2**-8 and largest_error(rounded, exact) <= 2**-9
    tiny = torch.full((3,), 1e-30)
    assert relative_error(tiny * 2, tiny) == pytest.approx(1), "in float32 the squares would be 0"


def test_several_tensors_count_together_by_their_elements():
    exact = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0, 0.0])}
    y = {"b": torch.tensor([4.0, 1.0]), "a": torch.tensor([3.0])}
    joined = relative_error(torch.tensor([3.0, 4.0, 1.0]), torch.tensor([3.0, 4.0, 0.0]))
    assert relative_error_together(y, exact) == pytest.approx(joined) == 0.2
    assert gradient_error(y, exact) == 0.25, "each in parts of its own largest entry"


def test_what_is_not_finite_is_never_called_near():
    for wrong in (math.nan, math.inf):
        y = torch.tensor([3.0, wrong])
        assert largest_relative_error(y, EXACT) == math.inf and not relative_error(y, EXACT) < 1e9
        assert gradient_error({"a": EXACT, "b": y}, {"a": EXACT, "b": EXACT}) == math.inf
        assert gradient_error({"a": y, "b": EXACT}, {"a": EXACT, "b": EXACT}) == math.inf


def test_where_the_exact_result_is_zero_or_empty_there_is_still_an_answer():
    zero = torch.zeros(3)
    assert largest_relative_error(zero, zero) == 0 and largest_relative_error(zero + 0.5, zero) == 0.5
    assert largest_relative_error(torch.empty(0), torch.empty(0)) == 0


def test_what_both_have_is_no_difference_and_what_one_has_is_infinite():
    exact = torch.tensor([1.0, math.inf, math.nan, -math.inf])
    assert largest_relative_error(exact.clone(), exact) == 0
    assert largest_relative_error(torch.tensor([1.5, math.inf, math.nan, -math.inf]), exact) == 0.5
    for at, wrong in ((1, -math.inf), (2, 0.0), (3, 0.0), (0, math.nan)):
        y = exact.clone()
        y[at] = wrong
        assert largest_relative_error(y, exact) == math.inf
