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
        equal = x.masked_fill(x < 0, -torch.inf), (x * 0) / (x * 0)  # infinities and NaN: no error
        return *short, *looped, torch.linalg.vector_norm(x, float("inf")), *torch.cummax(x, -1), x.clamp(-1, 1), *equal

    x, long = numbers(8, 64), numbers(3, 9_000)
    x[3, 5] = long[0, 3] = long[1, 17] = long[1, 8_000] = torch.nan
    found = interpret(extremes, x, long)
    assert found.worst == 0 and found.outputs[0][3].isnan() and found.outputs[7].tolist()[:2] == [3, 17]


def test_a_cast_goes_to_the_nearest_and_in_fp8_no_further_than_the_largest():
    def cast(x, wide, whole, far):
        nearest = x.bfloat16(), wide.bfloat16(), whole.bfloat16(), x.half(), x.to(torch.float8_e5m2).float()
        return far.to(torch.float8_e4m3fn).float(), x.to(torch.float8_e4m3fn).float(), *nearest

    far = torch.tensor([500.0, -500.0, torch.inf, torch.nan])
    found = interpret(cast, 10 * numbers(8, 64), numbers(8, 64).double(), 3 * torch.arange(512), far)
    assert not any(found.errors[f"output[{at}]"] for at in range(1, 7))
    assert found.outputs[0].nan_to_num(nan=1).tolist() == [448, -448, 448, 1], "beyond the largest a chip stays there"


def test_what_is_bf16_is_eagers_to_the_bit_or_to_its_last():
    def step(x):
        return x * 1.1, nn.functional.silu(x), nn.functional.layer_norm(x, [64]), x.softmax(-1), x.cumsum(-1)

    found = interpret(step, numbers(8, 64, dtype=torch.bfloat16))
    assert found.errors["output[0]"] == 0 and found.worst < 2**-7


def test_what_the_function_makes_is_where_its_data_is():
    def step(x):
        made = torch.zeros(8, 64).index_add(0, torch.tensor([0, 1, 1, 3, 0, 2, 5, 7]), x)
        most = torch.zeros(8, 64).scatter_reduce(0, torch.zeros(8, 64, dtype=torch.long), x, "amax")
        return made, most, torch.bucketize(x, torch.linspace(-1, 1, 5)), torch.ldexp(x, torch.full((8, 64), 3))

    assert interpret(step, numbers(8, 64)).worst < 1e-6


def test_functions_of_the_device_library_have_stand_ins():
    def step(x, whole):
        bessel = torch.special.i0(x), torch.special.i1(x)
        return whole.bitwise_not(), x.atan(), *torch.frexp(x), torch.addcmul(x, x, x, value=0.5), *bessel

    found = interpret(step, numbers(8, 64), torch.arange(64, dtype=torch.uint8))
    assert found.worst < 1e-6 and found.errors["output[0]"] == 0


def test_several_may_add_one_number_to_one_place():
    def step(x):
        added = x.clone().index_put((torch.tensor([0, 0, 1]),), torch.ones(3, 64), accumulate=True)
        in_bf16 = torch.zeros(8, 64, dtype=torch.bfloat16)
        return added, in_bf16.scatter_add(0, torch.zeros(8, 64, dtype=torch.long), x.bfloat16())

    found = interpret(step, numbers(8, 64))
    assert found.errors["output[0]"] == 0 and found.worst < 2**-6


def test_a_wide_convolution_lies_as_the_chip_lays_it():
    """96 channels on 8 × 8: a kernel whose size is a multiple of Inductor's largest block has no mask."""
    plain, turned = nn.Conv2d(4, 65, 1), nn.ConvTranspose2d(4, 96, 3)
    x = numbers(2, 4, 6, 6).requires_grad_()
    found = interpret(lambda x: (plain(x).square().mean(), turned(x).square().mean()), x)
    assert found.worst < 1e-4 and len(found.gradients) >= 4
