"""What goes wrong when guards are skipped and something changes, and what each stance does with a new shape.

Guards are skipped in two ways here: by torch's stance, which leaves guards unchecked but those on input tensors, and
by a filter, ``skip_all_guards_unsafe``, which makes none. Both say unsafe in their names.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import door

from .overhead import skipping

STANCES = ("default", "eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile")
SKIPS = ("checked", "stance", "filter")
STANCE_CALLS = ("4, compiled before", "6", "6 again", "8", "4 again")
doubled = False
"""A Python global of the code that is compiled here."""
_fresh = itertools.count()


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
class ChangeTold:
    """One change, the first number of the answer by eager code after it (``true``), and by compiled code that checks
    its guards, that skips them by the stance, and that has none. A string in place of a number is an error.
    """

    change: str
    before: float
    true: float
    checked: float | str
    stance: float | str
    filter: float | str

    def wrong(self, skip: str) -> bool:
        """Whether an answer was given, without an error, that is not the true one. ``skip`` is one of ``SKIPS``."""
        given = getattr(self, skip)
        return not isinstance(given, str) and abs(given - self.true) > 1e-5 * max(1.0, abs(self.true))


@dataclass(frozen=True)
class StanceTold:
    """What a stance did with calls of length 4 (compiled before), 6, 6, 8 and 4: "compiled", "reused", "eager" or the
    error's name, in that order.
    """

    stance: str
    calls: tuple[str, ...]


@door
def skipped_changes() -> list[ChangeTold]:
    """Change one thing after compiling, with guards checked and skipped: what comes out. Ten seconds, five warm.

    A switch of the model, a Python global, a weight in place and replaced, the number of rows, the dtype.
    """
    x = torch.ones(4, 4)
    cases: list[tuple[str, type[nn.Module], Callable[[nn.Module], Any], Tensor]] = [
        ("model.negative = True", Switched, lambda model: setattr(model, "negative", True), x),
        ("a global becomes True", Globally, lambda _: _set_global(True), x),
        ("a weight times 2, in place", Switched, lambda model: model.layer.weight.mul_(2), x),
        ("a weight replaced", Switched, lambda model: setattr(model.layer, "weight", nn.Parameter(torch.eye(4))), x),
        ("8 rows for 4", Average, lambda _: None, torch.ones(8, 4)),
        ("float64 for float32", Average, lambda _: None, x.double()),
        ("int32 for float32", Average, lambda _: None, x.to(torch.int32)),
    ]
    return [_change(*case, x) for case in cases]


@door
def stances() -> list[StanceTold]:
    """What each of ``STANCES`` does with a known length, a new one, and what follows: a backend that counts tells."""
    return [StanceTold(stance, tuple(_under(stance))) for stance in STANCES]


@torch.no_grad()
def _change(
    change: str, kind: type[nn.Module], then: Callable[[nn.Module], Any], after: Tensor, first: Tensor
) -> ChangeTold:
    told: dict[str, Any] = {}
    for skip in SKIPS:
        model = kind()
        made = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe} if skip == "filter" else None
        reset_dynamo()
        try:
            compiled = torch.compile(model, dynamic=False, options=made)
            told["before"] = _number(compiled(first))
            with skipping(skip == "stance"):
                then(model)
                told[skip] = _answer(lambda compiled=compiled: compiled(after))
            told["true"] = _number(model(after))
        finally:
            _set_global(False)
            reset_dynamo()
    return ChangeTold(change, **told)


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


def _under(stance: str) -> list[str]:
    seen: list[str] = []

    def backend(module: Any, _: Any) -> Callable[..., Any]:
        seen.append("compiled")

        def run(*given: Any) -> Any:
            seen.append("reused")
            return module.forward(*given)

        return run

    names: dict[str, Any] = {}  # a function that torch has not met: it remembers lengths by file and line
    exec(compile("def double(x):\n    return x * 2\n", f"<stance {next(_fresh)}>", "exec"), names)
    reset_dynamo()
    try:
        fn = torch.compile(names["double"], backend=backend)
        fn(torch.ones(4))
        told = []
        with torch.compiler.set_stance(stance):
            for length in (4, 6, 6, 8, 4):
                seen.clear()
                try:
                    fn(torch.ones(length))
                    told.append(seen[0] if seen else "eager")
                except RuntimeError as error:
                    told.append(type(error).__name__)
        return told
    finally:
        reset_dynamo()
