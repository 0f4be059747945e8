"""Formats, fp8 and rounding, against what torch's types do."""

import math

import pytest
import torch

from compile_lab.precision import formats as precision
from compile_lab.precision.formats import FORMATS


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "tf32"])  # which no tensor has
def test_a_format_says_what_its_dtype_does(name):
    form = FORMATS[name]
    one, step = torch.ones((), dtype=torch.float64), form.ulp_at_one
    assert (one + step).to(form.dtype).double() == 1 + step and (one + step / 2).to(form.dtype).double() == 1
    assert torch.tensor(form.smallest, dtype=torch.float64).to(form.dtype).double() == form.smallest
    assert torch.tensor(form.smallest / 2.1, dtype=torch.float64).to(form.dtype).double() == 0
    assert torch.tensor(form.largest, dtype=torch.float64).to(form.dtype).double() == form.largest


def test_the_setting_for_fp32_products_comes_back():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), precision.float32_products("high"):
        assert torch.get_float32_matmul_precision() == "high"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("value", [-1.003, 3e-39])
def test_stochastic_rounding_is_right_on_average(value):
    x = torch.full((20_000,), value)
    rounded = precision.stochastically_rounded(x, torch.Generator().manual_seed(0)).double()
    assert len(rounded.unique()) == 2 and rounded.min() < value < rounded.max()
    step = float(rounded.max() - rounded.min())
    assert abs(rounded.mean() - x.double().mean()) < 4 * step / 2 / math.sqrt(len(x))
    exact = torch.tensor([1.0, -0.5, 0.0])
    assert torch.equal(precision.stochastically_rounded(exact).float(), exact)
