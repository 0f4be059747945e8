"""Exercises of chapter 07, backward fusion."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.traffic import computing

from ..exercises.judging import exercise


@exercise("07.3", takes=Callable)
def bias_by_the_matmul(answer: Callable) -> str | None:
    """linear(x, weight, bias) whose backward, on an H200, has no reduction besides its matmuls."""
    torch.manual_seed(0)
    sizes = ((6, 4), (5, 4), (5,))
    given = [torch.randn(size, requires_grad=True) for size in sizes]
    expected, got = F.linear(*given), answer(*given)
    if got.shape != expected.shape or not torch.allclose(got, expected, atol=1e-5):
        return "the result is not that of F.linear."
    if not got.requires_grad:
        return "the result has no gradient."
    gradient = torch.randn_like(expected)
    pairs = [torch.autograd.grad(result, given, gradient, allow_unused=True) for result in (expected, got)]
    for name, wanted, found in zip(("x", "weight", "bias"), *pairs, strict=True):
        if found is None or not torch.allclose(wanted, found, atol=1e-5):
            return f"the gradient of {name} is not that of F.linear."
    large = [torch.empty(size, device="meta", requires_grad=True) for size in ((8192, 512), (1024, 512), (1024,))]
    backward = [kernel for kernel in generated_code(answer, *large, chip="H200").kernels if _reduces(kernel)]
    return f"on an H200, {backward[0].name} still sums over all rows." if backward else None


def _reduces(kernel: Any) -> bool:
    sums = any(origin.op.startswith("aten.sum") for origin in kernel.computed)
    return kernel.direction == "backward" and sums


@exercise("07.4", takes=Callable)
def accumulate(answer: Callable) -> str | None:
    """accumulate(grad, dy, x): add dyᵀ x to grad, in place, in one operator."""
    torch.manual_seed(0)
    grad, dy, x = torch.randn(5, 4), torch.randn(6, 5), torch.randn(6, 4)
    expected, memory = grad + dy.T @ x, grad.data_ptr()
    ops = computing(lambda: answer(grad, dy, x))
    if grad.data_ptr() != memory or not torch.allclose(grad, expected, atol=1e-5):
        return "grad itself does not hold the sum afterwards: it has to be changed in place."
    return None if len(ops) == 1 else f"it takes {len(ops)} operators that compute: {', '.join(ops)}."
