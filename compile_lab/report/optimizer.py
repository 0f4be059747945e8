"""What a report says of the optimizer, the reader's own or AdamW: bytes that it remembers, rates that compile again."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.dispatcher import fake_tensors, without_fakes
from .._torch.dynamo import compiled_anew
from ..capture import Recompiled, compilation
from ..dynamo.tracing import Kept, keeping, quiet
from ..tensors import nbytes
from .given import GivenModel

MOST_REAL_NBYTES = 100_000_000


@dataclass(frozen=True)
class OptimizerState:
    """What an optimizer of class ``name`` remembers between steps. ``nbytes`` is None where it was not told, and
    ``why`` says so; ``own`` if it is the reader's."""

    name: str
    own: bool
    nbytes: int | None
    why: str = ""

    @property
    def called(self) -> str:
        """What stands beside its bytes: nobody has said yet that AdamW will be used."""
        return f"{self.name}'s state" if self.own else f"{self.name}'s state, if you use it"


def optimizer_state(given: GivenModel) -> OptimizerState:
    """One step of such an optimizer on zeros like its parameters: what it then keeps, single numbers aside. Parameters
    that are large are fakes, on which an optimizer that reads values cannot step."""
    kind, defaults = _kind(given.optimizer)
    groups = given.optimizer.param_groups if given.optimizer else [{"params": given.model.parameters()}]
    trained = [each for group in groups for each in group["params"] if each.requires_grad]
    own = given.optimizer is not None
    if given.sparse and not own:
        return OptimizerState("AdamW", own, None, "AdamW takes no sparse gradients; SparseAdam and SGD do")
    small = sum(map(nbytes, trained)) <= MOST_REAL_NBYTES
    try:
        with without_fakes(), contextlib.nullcontext() if small else fake_tensors(allow_real=True):
            parameters = [nn.Parameter(torch.zeros(each.shape, dtype=each.dtype)) for each in trained]
            for each in parameters:
                each.grad = torch.zeros_like(each)
                each.grad = each.grad.to_sparse() if kind is torch.optim.SparseAdam else each.grad
            optimizer = kind(parameters, **defaults)
            optimizer.step()
    except Exception as error:  # an optimizer may be anybody's
        why = f"a step of it on {'zeros' if small else 'fake tensors'} raised {type(error).__name__}"
        return OptimizerState(kind.__name__, own, None, why)
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return OptimizerState(kind.__name__, own, sum(nbytes(each) for each in kept if each.ndim))


def learning_rates(optimizer: torch.optim.Optimizer | None) -> tuple[str, tuple[bool, ...]]:
    """If the optimizer's step is compiled, is it compiled again when the learning rate changes? Tried four times.

    On a parameter of four numbers with an optimizer of the same class and defaults, AdamW's own without one; the
    first answer is of the first change. Returns the class's name and the answers.
    """
    kind, defaults = _kind(optimizer)
    with without_fakes():
        return kind.__name__, _changes_that_compile(kind, defaults, _set_rate)


def cycled_momentum(optimizer: torch.optim.Optimizer | None) -> tuple[str, tuple[bool, ...]]:
    """The same of a momentum that a scheduler changes in every step, as OneCycleLR and CyclicLR do by themselves.

    They leave ``max_momentum`` in the groups of their optimizer. The name is "betas" or "momentum", or "" where nothing
    cycles.
    """
    if optimizer is None or not any("max_momentum" in group for group in optimizer.param_groups):
        return "", ()
    kind, defaults = _kind(optimizer)
    with without_fakes():
        return _momentum_of(optimizer.param_groups[0]), _changes_that_compile(kind, defaults, _set_momentum)


def _kind(optimizer: torch.optim.Optimizer | None) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """The reader's own, with what it was made with, or AdamW."""
    if optimizer is None:
        return torch.optim.AdamW, {}
    kind = type(optimizer)
    takes = inspect.signature(kind.__init__).parameters  # some keep among their defaults what they do not take
    defaults = {name: value for name, value in optimizer.defaults.items() if name in takes}
    rate = optimizer.param_groups[0]["lr"]
    return kind, {**defaults, "lr": rate.clone() if isinstance(rate, Tensor) else rate}


def _changes_that_compile(
    kind: type[torch.optim.Optimizer], defaults: dict[str, Any], change: Callable[[dict[str, Any], float], None]
) -> tuple[bool, ...]:
    """Of four steps, each after ``change(group, factor)`` of all groups: was step compiled again?"""
    parameter = nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4).to_sparse() if kind is torch.optim.SparseAdam else torch.ones(4)
    small = kind([parameter], **defaults)
    kept: list[Kept] = []
    again = []
    with compiled_anew(), quiet(), compilation() as log:
        step = torch.compile(small.step, backend=keeping(kept))
        step()
        step()  # the state is there only from the second step on
        for factor in (0.5, 0.3, 0.2, 0.1):
            before = len(log.of(Recompiled))
            for group in small.param_groups:
                change(group, factor)
            step()
            again.append(len(log.of(Recompiled)) > before)
    return tuple(again)


def _set_rate(group: dict[str, Any], factor: float) -> None:
    """As a scheduler does: a tensor is filled, a number replaced."""
    rate = factor * float(group["lr"])
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _momentum_of(group: dict[str, Any]) -> str:
    return "betas" if "betas" in group else "momentum"


def _set_momentum(group: dict[str, Any], factor: float) -> None:
    """As the cycling schedulers do: a number is replaced, the first of the betas."""
    value = 0.85 + 0.1 * factor
    group[_momentum_of(group)] = (value, *group["betas"][1:]) if "betas" in group else value
