"""Exercises of chapter 05, from Triton to PTX."""

from typing import Any

import torch

from compile_lab.virtual_gpu.launching import interpret_kernel

from ..exercises.judging import exercise


@exercise("05.2")
def rms_norm_in_the_interpreter(answer: Any) -> str | None:
    """A kernel (out, x, columns, BLOCK), one program a row, that divides a row by the root of its mean square."""
    generator = torch.Generator().manual_seed(0)
    for columns in (64, 100):
        x = 3 * torch.randn(3, columns, generator=generator)
        right = x / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt()
        out, *_ = interpret_kernel(answer, len(x), torch.full_like(x, torch.nan), x, columns, BLOCK=128)
        if out.isnan().any():
            return f"with rows of {columns}, some elements are not written, or are no numbers."
        if (error := (out - right).abs().max().item()) > 1e-4:
            return f"with rows of {columns} and BLOCK=128 the largest error is {error:.3f}."
    return None


@exercise("05.3", takes=str, expects="text: two opcodes, with a space between")
def opcodes_of_the_exponential(answer: str) -> str | None:
    """The two operations of PTX that tl.exp takes for each element."""
    opcodes = answer.split()
    if not opcodes or not opcodes[-1].startswith("ex2"):
        return "the last operation must compute a power, of the only base that the chip knows."
    if len(opcodes) != 2:
        return f"each element takes two operations, not {len(opcodes)}."
    return None if opcodes[0].startswith("mul") else f"{opcodes[0]} does not turn a power of e into one of that base."
