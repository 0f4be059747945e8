"""Exercises of chapter 03, joint graphs."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from compile_lab.aot.training import training_graphs
from compile_lab.eager.saved import eager_saved

from ..exercises.judging import exercise


@exercise("03.2", takes=Callable)
def keeps_nothing(answer: Callable) -> str | None:
    """A function of x and w, both 32 by 32, with a matmul and a sine, that keeps nothing besides its inputs."""
    graphs = training_graphs(answer, *(torch.randn(32, 32, requires_grad=True) for _ in range(2)))
    ops = {node.op for node in graphs.forward.nodes}
    for op, what in (("aten.mm", "matmul"), ("aten.sin", "sine")):
        if op not in ops:
            return f"there is no {what} in its forward graph."
    kept = next((each for each in graphs.saved if each.extra_nbytes), None)
    if kept:
        return f"it keeps {graphs.saved_nbytes:,} bytes: the result of {kept.op}, because of this: {kept.why}."
    return None


@exercise("03.3", takes=Callable)
def lean_swish(answer: Callable) -> str | None:
    """x * sigmoid(x) that keeps, in eager mode, one buffer of the size of x, and has the right gradient."""
    x = torch.linspace(-3, 3, 64, requires_grad=True)
    if not torch.allclose(answer(x), F.silu(x), atol=1e-6):
        return "the result is not x * sigmoid(x)."
    (found,), (right,) = (torch.autograd.grad(fn(x).sum(), x) for fn in (answer, F.silu))
    if not torch.allclose(found, right, atol=1e-6):
        return "the gradient is wrong."
    kept = sum(each.extra_nbytes for each in eager_saved(lambda x: answer(x + 0), x))
    if kept > 64 * 4:
        return f"autograd keeps {kept} bytes for an input of {64 * 4}: more than the input alone."
    return None
