"""Exercises of chapter 24, the capstone."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from compile_lab.memory.measured import measure_peak
from compile_lab.page.units import significant

from ..exercises.judging import exercise

ROWS, DIM, WORDS, CHUNK = 512, 16, 4096, 64


@exercise("24.3", takes=Callable)
def gelu_with_one_exponential(answer: Callable) -> str | None:
    """gelu(x) in its tanh form and its derivative, with one call of exp and none of tanh."""
    x = torch.linspace(-6, 6, 201, dtype=torch.float64, requires_grad=True)
    right = F.gelu(x, approximate="tanh")
    (slope,) = torch.autograd.grad(right.sum(), x)
    called: list[str] = []
    with _Listening(called):
        found = answer(x.detach())
    if not isinstance(found, tuple) or len(found) != 2:
        return "it gives one thing; this asks for two: the value and the derivative."
    for name, got, wanted in (("the value", found[0], right), ("the derivative", found[1], slope)):
        if not torch.allclose(got, wanted, atol=1e-12):
            return f"{name} is up to {(got - wanted).abs().max().item():.2g} off."
    if "tanh" in called or called.count("exp") > 1:
        return f"it calls {', '.join(name for name in called if name in ('exp', 'tanh'))}."
    if "gelu" in called:
        return "torch's own gelu knows the answer; write it with exp."
    return None


class _Listening(torch.overrides.TorchFunctionMode):
    """Notes the name of each function of torch that is called."""

    def __init__(self, called: list[str]) -> None:
        self.called = called

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.called.append(getattr(function, "__name__", "").strip("_"))
        return function(*args, **(kwargs or {}))


@exercise("24.4", takes=Callable)
def head_by_chunks(answer: Callable) -> str | None:
    """head(hidden, table, targets, rows): mean cross entropy of hidden @ table.T and both gradients, by chunks."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(ROWS, DIM, generator=generator)
    table = torch.randn(WORDS, DIM, generator=generator)
    targets = torch.randint(WORDS, (ROWS,), generator=generator)
    leaves = hidden.double().requires_grad_(), table.double().requires_grad_()
    loss = F.cross_entropy(leaves[0] @ leaves[1].T, targets)
    wanted = (loss.detach(), *torch.autograd.grad(loss, leaves))
    before = hidden.clone(), table.clone()
    found = answer(hidden, table, targets, CHUNK)
    if not isinstance(found, tuple) or len(found) != 3:
        return "this asks for three things: the loss, the gradient of hidden, the gradient of table."
    if not (torch.equal(hidden, before[0]) and torch.equal(table, before[1])):
        return "it writes into what it is given."
    for name, got, right in zip(("the loss", "the gradient of hidden", "that of table"), found, wanted, strict=True):
        apart = float((torch.as_tensor(got).double() - right).norm() / right.norm())
        if not apart < 1e-4:
            return f"{name} is {significant(100 * apart, 2)} % off."
    chunk = CHUNK * WORDS * 4
    most = measure_peak(lambda: answer(hidden, table, targets, CHUNK)).peak_nbytes
    kept = (ROWS * DIM + 2 * WORDS * DIM) * 4
    if most > 1.5 * chunk + kept:
        return f"it holds {most:,} bytes at most, and one chunk of logits has {chunk:,}: what is there twice?"
    return None
