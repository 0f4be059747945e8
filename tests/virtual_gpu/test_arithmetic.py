"""A chip's arithmetic in Triton's interpreter: what an H100 was seen to compute, and eager on the same data."""

import sys

import pytest
import torch
from torch import nn

from compile_lab.virtual_gpu.client import interpret

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")]


def numbers(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_a_nan_is_the_largest_and_the_smallest():
    def extremes(x, long):
        short = x.amax(-1), x.amin(0), x.max(), *torch.aminmax(x, dim=-1), *x.min(-1)
        looped = long.argmax(-1), long.argmin(-1), *long.max(-1), long.amin(-1)
        return *short, *looped, torch.linalg.vector_norm(x, float("inf")), *torch.cummax(x, -1), x.clamp(-1, 1)

    x, long = numbers(8, 64), numbers(3, 9_000)
    x[3, 5] = long[0, 3] = long[1, 17] = long[1, 8_000] = torch.nan
    found = interpret(extremes, x, long)
    assert found.worst == 0 and found.outputs[0][3].isnan() and found.outputs[7].tolist()[:2] == [3, 17]


def test_a_cast_goes_to_the_nearest():
    def cast(x, wide, whole):
        to_bf16 = x.bfloat16(), wide.bfloat16(), whole.bfloat16()
        return *to_bf16, x.half(), x.to(torch.float8_e4m3fn).float(), x.to(torch.float8_e5m2).float()

    assert interpret(cast, 10 * numbers(8, 64), numbers(8, 64).double(), 3 * torch.arange(512)).worst == 0


def test_what_is_bf16_is_eagers_to_the_bit_or_to_its_last():
    def step(x):
        return x * 1.1, nn.functional.silu(x), nn.functional.layer_norm(x, [64]), x.softmax(-1), x.cumsum(-1)

    found = interpret(step, numbers(8, 64, dtype=torch.bfloat16))
    assert found.errors["output[0]"] == 0 and found.worst < 2**-7


def test_dtypes_that_torch_does_not_pickle_travel():
    def step(x, whole):
        return x.float() * 2, (2 * x.float()).to(torch.float8_e5m2), whole.int() + 1

    x, whole = numbers(8, 64).to(torch.float8_e4m3fn), torch.arange(64).to(torch.uint16)
    found = interpret(step, x, whole)
    assert found.worst == 0 and found.outputs[1].dtype == torch.float8_e5m2
    assert interpret(lambda x: x.t().float() + 1, x).worst == 0


def test_beyond_the_largest_number_of_fp8_a_chip_stays_there():
    found = interpret(lambda x: x.to(torch.float8_e4m3fn).float(), torch.tensor([500.0, -500.0, torch.inf, torch.nan]))
    assert found.outputs.nan_to_num(nan=1).tolist() == [448, -448, 448, 1]


def test_what_the_function_makes_is_where_its_data_is():
    def step(x):
        made = torch.zeros(8, 64).index_add(0, torch.tensor([0, 1, 1, 3, 0, 2, 5, 7]), x)
        most = torch.zeros(8, 64).scatter_reduce(0, torch.zeros(8, 64, dtype=torch.long), x, "amax")
        return made, most, torch.bucketize(x, torch.linspace(-1, 1, 5)), torch.ldexp(x, torch.full((8, 64), 3))

    assert interpret(step, numbers(8, 64)).worst < 1e-6


def test_functions_of_the_device_library_have_stand_ins():
    def step(x):
        return x.atan(), *torch.frexp(x), torch.special.i0(x), torch.addcmul(x, x, x, value=0.5), torch.special.i1(x)

    assert interpret(step, numbers(8, 64)).worst < 1e-6
    assert interpret(torch.bitwise_not, torch.arange(64, dtype=torch.uint8)).worst == 0


def test_several_may_add_one_number_to_one_place():
    def step(x):
        return x.clone().index_put((torch.tensor([0, 0, 1]),), torch.ones(3, 64), accumulate=True)

    assert interpret(step, numbers(8, 64)).worst == 0


def test_several_that_add_to_one_place_add_in_bf16():
    def step(x):
        return torch.zeros(8, 64, dtype=torch.bfloat16).scatter_add(0, torch.zeros(8, 64, dtype=torch.long), x)

    assert interpret(step, numbers(8, 64, dtype=torch.bfloat16)).worst < 2**-6


@pytest.mark.parametrize("layer", [nn.Conv2d(4, 65, 1), nn.ConvTranspose2d(4, 96, 3)])
def test_a_wide_convolution_lies_as_the_chip_lays_it(layer):
    """96 channels on 8 × 8: a kernel whose size is a multiple of Inductor's largest block has no mask."""
    found = interpret(lambda x: layer(x).square().mean(), numbers(2, 4, 6, 6).requires_grad_())
    assert found.worst < 1e-4 and len(found.gradients) >= 2


def test_equal_infinities_and_nans_are_no_error():
    def step(x):
        return x.masked_fill(x < 0, -torch.inf), (x * 0) / (x * 0)

    assert interpret(step, numbers(8, 64)).worst == 0
