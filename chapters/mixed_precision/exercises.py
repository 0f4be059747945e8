"""Exercises of chapter 10, mixed precision."""

import math
from collections.abc import Callable

import torch

from compile_lab.measure.judge import relative_error
from compile_lab.precision.formats import FORMATS

from ..exercises.judging import exercise


@exercise("10.1", takes=Callable)
def is_lost(answer: Callable) -> str | None:
    """is_lost(weight, update): does a bf16 weight stay as it is?"""
    # Just below and above half a step, also towards zero, where below a power of two steps are half as wide.
    for weight in (1.0, 0.02, 300.0, -1.0):
        for share in (0.0, 1e-3, 0.2, 0.45, 0.6, 2.0, -0.2, -0.3, -0.6):
            start = torch.tensor(weight, dtype=torch.bfloat16).double().item()
            update = share * 2.0 ** (math.floor(math.log2(abs(start))) - FORMATS["bf16"].mantissa_bits)
            expected = torch.tensor(start + update, dtype=torch.bfloat16).item() == start
            got = answer(start, update)
            if bool(got) != expected:
                what = "stays as it is" if expected else "does change"
                return f"a weight of {start:g} that is changed by {update:.3g} {what}, and yours says {got}."
    return None


@exercise("10.2", takes=Callable)
def loss_scale(answer: Callable) -> str | None:
    """loss_scale(gradients): the largest power of two with which none overflows in fp16."""
    for largest in (1.0, 3e-5, 700.0, 65504.0, 1e6):
        gradients = [torch.full((3,), largest / 7), torch.tensor([[-largest, largest / 1000]])]
        got = answer(gradients)
        if not isinstance(got, int | float) or got <= 0 or not math.log2(got).is_integer():
            return f"for gradients up to {largest:g} it says {got!r}, which is no power of two."
        if not all((each * got).half().isfinite().all() for each in gradients):
            return f"for gradients up to {largest:g} a scale of {got:g} makes one infinite."
        if all((each * got * 2).half().isfinite().all() for each in gradients):
            return f"for gradients up to {largest:g} twice {got:g} would still be safe."
    return None


@exercise("10.3", takes=Callable)
def to_fp8(answer: Callable) -> str | None:
    """to_fp8(x): values in e4m3 and one scale."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    for size in (1.0, 1e-4, 1e4):
        values, scale = answer(x * size)
        if values.dtype != torch.float8_e4m3fn:
            return f"the values are {values.dtype}."
        if torch.as_tensor(scale).numel() != 1:
            return "return one scale for the whole tensor."
        lost = relative_error(values.float() * scale, x * size)
        if not lost < 0.04:
            return f"for numbers around {size:g} the error is {lost:.2g}."
    return None


UPDATES = 400


WEIGHTS: tuple[tuple[str, float, float, float, float], ...] = (
    ("a weight of 1 and updates of 0.001", 1.0, 0.001, 0.0, 0.0),
    ("a weight of −300 and updates of 0.07", -300.0, 0.07, 0.0, 0.0),
    ("a weight of 1 and updates of either sign", 1.0, 0.0, 0.0, 0.002),
    ("a weight of 256 that shrinks by 0.5 at a time", 256.0, -0.5, 0.0, 0.0),
    ("a weight of 0 and updates of 0.01", 0.0, 0.01, 0.0, 0.0),
    ("a weight of 0.01 that goes up and down by 0.03", 0.01, 0.0, 0.03, 0.0002),
)
"""What 10.5 adds up: in words, the weight at the start, its updates' mean, swing (up, down, up, …) and scatter."""


@exercise("10.5", takes=Callable)
def carried(answer: Callable) -> str | None:
    """add(weight, carry, update): (weight, carry) in bf16, within a step of bf16 of the exact sum, always."""
    drawn = torch.Generator().manual_seed(0)
    for words, start, mean, swing, scatter in WEIGHTS:
        weight = torch.full((16,), start, dtype=torch.bfloat16)
        carry, exact = torch.zeros_like(weight), weight.double()
        for count in range(1, UPDATES + 1):
            update = mean + (swing if count % 2 else -swing) + scatter * torch.randn(16, generator=drawn)
            exact += update.double()
            got = answer(weight, carry, update)
            shapes = [getattr(each, "shape", None) for each in got] if isinstance(got, tuple | list) else []
            if shapes != [update.shape] * 2:
                return "this asks for two tensors of the weight's shape, (weight, carry)."
            for name, each in zip(("weight", "carry"), got, strict=True):
                if each.dtype != torch.bfloat16:
                    return f"the {name} is {each.dtype}: two bytes each are all that is kept."
            weight, carry = got
            if not (off := _steps_off(weight, exact)) <= 1:
                return f"for {words} it is off by {off:.3g} steps of bf16 at update {count}."
    return None


def _steps_off(weight: torch.Tensor, exact: torch.Tensor) -> float:
    """How far a weight is from the exact one, in distances between neighbours in bf16."""
    step = 2.0 ** (exact.abs().log2().floor() - FORMATS["bf16"].mantissa_bits)
    return ((weight.double() - exact).abs() / step).max().item()
