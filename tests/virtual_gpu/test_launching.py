"""A kernel of one's own in the interpreter: what a chip would write, and what it would not take at all."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="no triton for this platform")

import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

from compile_lab.virtual_gpu import VirtualGPUError, interpret_kernel  # noqa: E402

pytestmark = pytest.mark.processes

NAN, INFINITE = float("nan"), float("inf")
SCALE = 3.0


def numbers(seed, *sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


@triton.jit
def larger(out, x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, tl.where(a > b, a * b + a, a - b))


@triton.jit
def ordered(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def dot(out, a, b, n: tl.constexpr):
    at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at).to(tl.bfloat16), tl.load(b + at).to(tl.bfloat16)))


def test_bf16_is_computed_and_not_its_bits():
    x, y = (numbers(seed, 64).bfloat16() for seed in range(2))
    given = torch.zeros_like(x)
    out, *_ = interpret_kernel(larger, 1, given, x, y, n=64)
    assert torch.equal(out, torch.where(x > y, x * y + x, x - y))
    assert not given.any(), "our tensors are left alone"
    assert torch.equal(interpret_kernel(ordered, 1, torch.empty_like(x), x, n=64)[0], x.sort().values)
    a, b = (numbers(seed, 16, 16) for seed in range(2))
    out, *_ = interpret_kernel(dot, 1, torch.empty(16, 16), a, b, n=16)
    assert torch.allclose(out, a.bfloat16().float() @ b.bfloat16().float(), atol=1e-5)


@triton.jit
def chosen(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    a = tl.load(x + at)
    middle = (a > 0 and a < 1) or not (a > -1)
    tl.store(out + at, tl.where(middle, max(a, 0.5), min(a, -0.5)))


def test_pythons_words_go_over_a_block_element_by_element():
    x = numbers(0, 64)
    middle = ((x > 0) & (x < 1)) | ~(x > -1)
    out, *_ = interpret_kernel(chosen, 1, torch.empty_like(x), x, n=64)
    assert torch.equal(out, torch.where(middle, x.clamp(min=0.5), x.clamp(max=-0.5)))


@triton.jit
def cast(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@triton.jit
def most(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.maximum(tl.load(x + at), 1.0))


@triton.jit
def clamped(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.clamp(tl.load(x + at), -1.0, 1.0))


@triton.jit
def scaled(out, x, scale, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(x + at) * (scale * scale))


ON_AN_H100 = {  # of 1e10, -1e10, NaN, infinity, 2.7, -2.7, 500, -8, with Triton 3.6
    torch.int8: [-1, 0, 0, -1, 2, -2, -12, -8],
    torch.uint8: [255, 0, 0, 255, 2, 0, 244, 0],
    torch.int16: [32767, -32768, 0, 32767, 2, -2, 500, -8],
    torch.int32: [2**31 - 1, -(2**31), 0, 2**31 - 1, 2, -2, 500, -8],
    torch.int64: [10**10, -(10**10), -(2**63), 2**63 - 1, 2, -2, 500, -8],
    torch.float8_e4m3fn: [448, -448, NAN, 448, 2.75, -2.75, 448, -8],
    torch.float8_e5m2: [57344, -57344, NAN, 57344, 2.5, -2.5, 512, -8],
}


@pytest.mark.parametrize("dtype", ON_AN_H100, ids=str)
def test_a_cast_ends_where_a_chips_does(dtype):
    x = torch.tensor([1e10, -1e10, NAN, INFINITE, 2.7, -2.7, 500.0, -8.0])
    out, *_ = interpret_kernel(cast, 1, torch.empty(8, dtype=dtype), x, n=8)
    assert torch.equal(out.double().nan_to_num(1), torch.tensor(ON_AN_H100[dtype]).double().nan_to_num(1))


def test_of_a_number_and_nan_a_chip_takes_the_number():
    x = torch.tensor([2.0, NAN, -2.0, INFINITE])
    assert interpret_kernel(most, 1, torch.empty(4), x, n=4)[0].tolist() == [2, 1, 1, INFINITE]
    assert interpret_kernel(clamped, 1, torch.empty(4), x, n=4)[0].tolist() == [1, 1, -1, 1]


def test_a_float_is_handed_over_in_fp32():
    x, scale = numbers(0, 64), torch.tensor(0.1)
    assert torch.equal(interpret_kernel(scaled, 1, torch.empty(64), x, 0.1, n=64)[0], x * (scale * scale))


@triton.jit
def looks_up(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(x + at) * SCALE)


@triton.jit
def branches(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    a = tl.load(x + at)
    if a > 0:
        a = a * 2
    tl.store(out + at, a)


@triton.jit
def three_rows(block):
    return tl.reshape(block, [3])


@triton.jit
def calls(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, three_rows(tl.load(x + at)))


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (looks_up, "line 3: .*global variable SCALE"),
        (branches, "line 4: Boolean value"),
        (calls, "line 2: .*power of 2"),  # of the function that it calls
    ],
)
def test_what_does_not_compile_is_refused_in_the_compilers_words(kernel, told):
    with pytest.raises(VirtualGPUError, match=f"{kernel.fn.__name__} does not compile for the virtual H200: {told}"):
        interpret_kernel(kernel, 1, torch.empty(64), torch.ones(64), n=64)


@triton.jit
def totals(out, x, n: tl.constexpr):
    block = tl.load(x + tl.arange(0, n))
    tl.store(out, tl.sum(block, 0))
    tl.store(out + 1, tl.max(block, 0))


def test_a_sum_of_bf16_is_a_tree_of_roundings():
    ones = torch.ones(1_024, dtype=torch.bfloat16)
    assert interpret_kernel(totals, 1, torch.empty(2), ones, n=1_024)[0].tolist() == [1_024, 1]
    x = numbers(0, 64).bfloat16()
    assert abs(interpret_kernel(totals, 1, torch.empty(2), x, n=64)[0][0] - 5.9375) <= 2**-5  # an H100's


@triton.jit
def described(out, x, n: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [n, n], [n, 1], [n, n]).load([0, 0])
    tl.make_tensor_descriptor(out, [n, n], [n, 1], [n, n]).store([0, 0], block * 2)


def test_a_tensor_descriptor_is_read_and_written():
    x = numbers(0, 16, 16)
    assert torch.equal(interpret_kernel(described, 1, torch.zeros(16, 16), x, n=16)[0], 2 * x)


@triton.jit
def bent(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, libdevice.tanh(tl.load(x + at)))


@triton.jit
def cut(out, x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out + at, tl.load(x + at).to(tl.float16, fp_downcast_rounding="rtz"))


def test_the_device_library_and_a_cast_towards_zero():
    x = torch.tensor([70000.0, 3e38, INFINITE, -70000.0, 0.1, -0.1, 1.0, NAN])
    assert torch.allclose(interpret_kernel(bent, 1, torch.empty(8), x, n=8)[0], x.tanh(), equal_nan=True)
    out, *_ = interpret_kernel(cut, 1, torch.empty(8, dtype=torch.float16), x, n=8)
    assert out[:6].tolist() == [65504, 65504, INFINITE, -65504, 0.0999755859375, -0.0999755859375]
