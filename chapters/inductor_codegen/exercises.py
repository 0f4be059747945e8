"""Exercises of chapter 04, Inductor's code. Kernels are counted for a virtual H200."""

from collections.abc import Callable

import torch

from compile_lab.inductor.generated import GeneratedCode, generated_code

from ..exercises.judging import exercise


def _code(answer: Callable, *shapes: tuple[int, ...]) -> GeneratedCode:
    return generated_code(answer, *(torch.randn(shape) for shape in shapes), chip="H200")


@exercise("04.2", takes=Callable)
def one_kernel(answer: Callable) -> str | None:
    """standardise(x): (x − mean) / largest absolute value of x, both along each row, in one kernel."""
    x = torch.randn(64, 300, generator=torch.Generator().manual_seed(0))
    right = (x - x.mean(1, keepdim=True)) / x.abs().amax(1, keepdim=True)
    if not torch.allclose(torch.as_tensor(answer(x.clone())), right, atol=1e-5):
        return "the result is not (x - row mean) / row maximum of |x|."
    kernels = _code(answer, (4096, 300)).kernels
    names = ", ".join(kernel.name for kernel in kernels)
    return None if len(kernels) == 1 else f"it takes {len(kernels)} kernels: {names}."


@exercise("04.3", takes=Callable)
def two_kernels(answer: Callable) -> str | None:
    """A function of one tensor with the same values as x.sin() * 2, which Inductor cannot write as one kernel."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    if not torch.allclose(torch.as_tensor(answer(x.clone())), x.sin() * 2, atol=1e-5):
        return "the result is not x.sin() * 2."
    code = _code(answer, (1024, 1024))
    if code.breaks:
        return f"the graph breaks at {code.breaks[0].source}: one graph, please, and two kernels."
    return None if len(code.kernels) >= 2 else "one kernel does it all: Inductor saw through it."
