"""Integer powers with a symbolic exponent: which are asked for. Chapter 05 shows the code that is generated."""

import json

import pytest
import torch

from chapters.triton_to_ptx.experiments.integer_powers import POWER_OF, exponents, record


def test_each_function_adds_its_power():
    assert all(POWER_OF[base](torch.tensor([1]), 5).item() == 1 + base**5 for base in POWER_OF)


@pytest.mark.parametrize("base", [1, 2.5])
def test_a_base_whose_powers_all_fit_is_refused(base):
    with pytest.raises(ValueError, match=r"^base is "):
        exponents(base)


def test_the_exponents_are_those_whose_power_fits():
    for base in POWER_OF:
        assert base ** exponents(base)[-1] < 2**63 <= base ** (exponents(base)[-1] + 1)


def test_without_a_gpu_it_says_what_is_left_out():
    found = record("cpu")
    assert found["rows"] == [] and "no C++" in found["left_out"][0] and json.dumps(found)
