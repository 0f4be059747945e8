"""A softmax over rows, written by hand in Triton: what the generated one is compared with.

The idea is in one sentence: a row is read once, kept in registers, and written once. So one exponential an element is
enough, and the kernel can be as fast as a copy. Needs triton, which there is for Linux and Windows.
"""

from dataclasses import dataclass
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "the hand-written kernels need triton, and it is not installed: pip install triton (Linux; on Windows "
        "triton-windows; there is none for macOS)"
    ) from None

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_COLUMNS = 32_768
"""Beyond, a row does not fit into the registers of one block: 32,768 float32 are half of a multiprocessor's."""

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def row_kernel(out, x, columns, BLOCK: tl.constexpr):
    """One program, one row: exp(v - max) as exp2(v·log2(e) - max·log2(e)), which is one instruction of the chip."""
    start = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.load(x + start + at, inside, float("-inf"), eviction_policy="evict_first")
    scaled = row.to(tl.float32) * LOG2E
    powers = tl.exp2(scaled - tl.max(scaled, 0))
    answer = powers * (1 / tl.sum(powers, 0))
    tl.store(out + start + at, answer.to(row.dtype), inside, eviction_policy="evict_first")


@triton.jit
def persistent_kernel(out, x, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """As many programs as fit on the chip at once; each goes from row to row and loads STAGES - 1 rows ahead."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for index in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = tl.cast(index, tl.int64) * columns
        row = tl.load(x + start + at, inside, float("-inf"), eviction_policy="evict_first")
        scaled = row.to(tl.float32) * LOG2E
        powers = tl.exp2(scaled - tl.max(scaled, 0))
        answer = powers * (1 / tl.sum(powers, 0))
        tl.store(out + start + at, answer.to(row.dtype), inside, eviction_policy="evict_first")


@dataclass(frozen=True)
class Configuration:
    """How the work is laid out: `warps` of 32 threads share a row.

    Without `stages` there is one program for each row. With it, programs stay: `programs` on each multiprocessor, that
    load `stages` - 1 rows ahead of the one they work on.
    """

    warps: int
    stages: int | None = None
    programs: int = 1

    def __post_init__(self) -> None:
        if self.warps not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"warps is {self.warps!r}; a block has 1, 2, 4, 8, 16 or 32")
        if (self.stages is not None and self.stages < 1) or self.programs < 1:
            raise ValueError(f"stages and programs are at least 1, not {self.stages!r} and {self.programs!r}")

    def __str__(self) -> str:
        warps = f"{self.warps} warp{'s' * (self.warps > 1)}"
        if self.stages is None:
            return f"one row a program, {warps}"
        return f"{self.programs} programs stay, {warps}, {self.stages} stages"


CONFIGURATIONS = (
    *(Configuration(warps) for warps in (1, 2, 4, 8, 16)),
    Configuration(4, stages=2, programs=6),
    Configuration(8, stages=2, programs=4),
    Configuration(8, stages=3, programs=4),
)
"""The layouts that the measurement tries on rows of 4,096."""


def fitting(columns: int, itemsize: int) -> Configuration:
    """One row a program, and so many warps that a thread holds 64 bytes of it: four loads of 16 bytes in flight."""
    warps = triton.next_power_of_2(columns) * itemsize // (32 * 64)
    return Configuration(min(32, max(1, warps)))


def softmax(x: torch.Tensor, configuration: Configuration | None = None) -> torch.Tensor:
    """Softmax over the rows of x, [rows, columns], float32, bfloat16 or float16; float32 inside, x's dtype outside.

    Raises TypeError for another dtype, ValueError for what is not a contiguous matrix on a GPU or has more than
    MOST_COLUMNS columns. On the CPU it runs under TRITON_INTERPRET=1 alone, slowly.
    """
    _check(x)
    out = torch.empty_like(x)
    if out.numel():
        launch(out, x, configuration or fitting(x.shape[1], x.element_size()))
    return out


def launch(out: torch.Tensor, x: torch.Tensor, configuration: Configuration) -> Any:
    """Start the kernel on tensors that `softmax` has checked; returns triton's compiled kernel, None if interpreted."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    if configuration.stages is None:
        return row_kernel[(rows,)](out, x, columns, BLOCK=block, num_warps=configuration.warps)
    units = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
    grid = (min(rows, units * configuration.programs),)
    return persistent_kernel[grid](
        out, x, rows, columns, BLOCK=block, STAGES=configuration.stages, num_warps=configuration.warps
    )


def _check(x: torch.Tensor) -> None:
    if x.dtype not in DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(f"x is {x.dtype}; this softmax takes {known}: convert it first")
    if x.ndim != 2 or not x.is_contiguous():
        shape, strides = list(x.shape), list(x.stride())
        raise ValueError(f"x has shape {shape} and strides {strides}; it must be a contiguous [rows, columns]")
    if x.shape[1] > MOST_COLUMNS:
        raise ValueError(f"x has {x.shape[1]} columns; a row must fit into a block's registers: at most {MOST_COLUMNS}")
    if not x.is_cuda and isinstance(row_kernel, triton.JITFunction):
        raise ValueError(f"x is on {x.device}, and this kernel runs on a GPU: move x, or set TRITON_INTERPRET=1")
