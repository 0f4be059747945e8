"""A kernel of one's own travels with the function that calls it, and stands in the generated code as it is."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="no triton for this platform")

import triton.language as tl  # noqa: E402

from compile_lab.inductor import generated_code  # noqa: E402


@triton.jit
def halved(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 0.5, at < n)


def half_plus_one(x, kernel=halved):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](out, x, x.numel(), BLOCK=256)
    return out + 1


def test_nothing_is_fused_with_it():
    made, added = generated_code(half_plus_one, torch.randn(1_000), chip="H200").kernels
    assert "tl.load(x + at, at < n) * 0.5" in made.body
    assert "* 0.5" not in added.body


def test_one_that_chooses_its_blocks_is_refused_by_name():
    chosen = triton.autotune(configs=[triton.Config({"BLOCK": 256})], key=["n"])(halved)
    with pytest.raises(TypeError, match=r"Autotuner wraps a kernel.*@triton.jit function itself"):
        generated_code(half_plus_one, torch.randn(1_000), chosen, chip="H200")
