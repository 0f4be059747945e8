"""What goes wrong when guards are skipped and something changes.

They are skipped by torch's stance, which checks only guards on tensors that are no parameters, and on what once failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import door

from .overhead import skipping

doubled = False
"""A Python global of the code that is compiled here."""


class Switched(nn.Module):
    """A layer of ones, [rows, 4] -> [rows, 4], negative after ``negative = True``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        nn.init.ones_(self.layer.weight)
        self.negative = False

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return -y if self.negative else y


class Globally(nn.Module):
    """x, or 2x where the global is set."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if doubled else x * 1


class Average(nn.Module):
    """The average row's sum, as a scalar."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum() / x.shape[0]


@dataclass(frozen=True)
class ChangeAnswer:
    """One change, and the first number of the answer after it: by eager code (``true``), and by compiled code whose
    guards are skipped (``skipped``), where a string is an error.
    """

    change: str
    true: float
    skipped: float | str

    @property
    def wrong(self) -> bool:
        """Whether an answer was given, without an error, that is not the true one."""
        return not isinstance(self.skipped, str) and abs(self.skipped - self.true) > 1e-5 * max(1.0, abs(self.true))


@door
def skipped_changes() -> list[ChangeAnswer]:
    """Change one thing after compiling, with guards skipped: what comes out. A few seconds.

    A switch of the model, a Python global, a weight in place and replaced, the number of rows, the dtype.
    """
    x = torch.ones(4, 4)
    cases: list[tuple[str, type[nn.Module], Callable[[nn.Module], Any], Tensor]] = [
        ("an attribute becomes True", Switched, lambda model: setattr(model, "negative", True), x),
        ("a global becomes True", Globally, lambda _: _set_global(True), x),
        ("a weight times 2, in place", Switched, lambda model: model.get_parameter("layer.weight").mul_(2), x),
        ("a weight replaced", Switched, lambda model: setattr(model.layer, "weight", nn.Parameter(torch.eye(4))), x),
        ("8 rows for 4", Average, lambda _: None, torch.ones(8, 4)),
        ("float64 for float32", Average, lambda _: None, x.double()),
        ("int32 for float32", Average, lambda _: None, x.to(torch.int32)),
    ]
    return [_change(*case, x) for case in cases]


@torch.no_grad()
def _change(
    change: str, kind: type[nn.Module], then: Callable[[nn.Module], Any], after: Tensor, first: Tensor
) -> ChangeAnswer:
    model = kind()
    reset_dynamo()
    try:
        compiled = torch.compile(model, dynamic=False)
        compiled(first)
        with skipping(True):
            then(model)
            skipped = _answer(lambda: compiled(after))
        return ChangeAnswer(change, _number(model(after)), skipped)
    finally:
        _set_global(False)
        reset_dynamo()


def _set_global(value: bool) -> None:
    global doubled
    doubled = value


def _answer(call: Callable[[], Tensor]) -> float | str:
    """The number, or the error: which of the two is the question here."""
    try:
        return _number(call())
    except (RuntimeError, AssertionError) as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0].split('.')[0]}"


def _number(y: Tensor) -> float:
    return y.flatten()[0].item()
