"""A kernel of one's own travels with the function that calls it, and stands in the generated code as it is."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="no triton for this platform")

import triton.language as tl  # noqa: E402

from compile_lab.inductor import generated_code  # noqa: E402
from compile_lab.virtual_gpu import VirtualGPUError, run  # noqa: E402

pytestmark = pytest.mark.processes


@triton.jit
def halved(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 0.5, at < n)


def half_plus_one(x, kernel=halved):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](out, x, x.numel(), BLOCK=256)
    return out + 1


@triton.autotune([triton.Config({"BLOCK": 128}, num_warps=2), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def tuned(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 0.25, at < n)


@triton.heuristics({"BLOCK": lambda given: triton.next_power_of_2(given["n"])})
@triton.jit
def guessed(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 0.125, at < n)


def test_one_that_chooses_or_guesses_its_blocks_keeps_its_choices_and_nothing_is_fused_with_it():
    def program(x):
        out, half = torch.empty_like(x), torch.empty_like(x)
        tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, x, x.numel())
        guessed[(1,)](half, x, x.numel())
        return out + half + 1

    chosen, eighth, added = generated_code(program, torch.randn(1_000), chip="H200").kernels
    assert "tl.load(x + at, at < n) * 0.25" in chosen.body and "* 0.125" in eighth.body
    assert "'BLOCK': 128" in chosen.source and "'BLOCK': 512" in chosen.source
    assert "* 0.25" not in added.body and "* 0.125" not in added.body


def test_launched_by_itself_it_writes_what_nobody_knows():
    """Outside of compiled code a launch is no operation of torch's: a virtual GPU goes on behind it."""

    def launched(x):
        out = torch.zeros(4, device=x.device)
        halved[(1,)](out, x, 4, BLOCK=4)
        return out.sum().item()

    with pytest.raises(VirtualGPUError, match="a value that only the real GPU would compute"):
        run("H200", launched, torch.randn(4))
    assert run("H200", lambda x: half_plus_one(x) @ x, torch.randn(8, 8)).shape == (8, 8)
