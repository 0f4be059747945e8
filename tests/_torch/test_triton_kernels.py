"""Kernels of one's own where no GPU is: interpreted in the block, and as they were after it."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="no triton for this platform")

import triton.language as tl  # noqa: E402

from compile_lab._torch.triton_kernels import kernels_interpreted  # noqa: E402

pytestmark = pytest.mark.processes


@triton.jit
def _doubled(value):
    return value * 2


@triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def sums(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + at, at < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(_doubled(row), 0))


def summed(x):
    out = torch.empty(x.shape[0])
    sums[(x.shape[0],)](out, x, x.shape[1])
    return out


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs them itself")
def test_kernels_interpreted():
    x = torch.randn(4, 10)
    with kernels_interpreted():
        torch.testing.assert_close(summed(x), 2 * x.sum(1))
        assert torch.compile(summed, backend="eager", fullgraph=True)(x).shape == (4,)
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="driver"):
        summed(x)
