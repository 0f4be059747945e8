"""A training step as the reader runs it: which modules it calls, how often it differentiates, which optimizers step.

A function that returns no loss, since it runs backward and optimizers itself, is watched through one run. The report's
graphs are then those of one of its modules, which is a part of the step; the step's own numbers are eager's.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map

from ..eager.flops import WorkCounter
from ..judge.function import FunctionModel, plain_function
from ..tensors import tensors


@dataclass
class ModuleCall:
    """A module that the step calls from outside of any other, with its first arguments under a gradient, if any."""

    name: str
    module: nn.Module = field(repr=False)
    args: tuple[Any, ...] = field(default=(), repr=False)
    kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    times: int = 0
    without_gradient: int = 0
    flops: int = 0
    """Floating-point operations of the matmuls of all of its calls."""


@dataclass(frozen=True)
class WholeStep:
    """``run()`` is the step. ``calls`` are the modules it calls, those with most work first."""

    name: str
    run: Callable[[], Any] = field(repr=False)
    calls: tuple[ModuleCall, ...]
    backwards: int
    optimizers: tuple[torch.optim.Optimizer, ...] = field(repr=False)
    modules: nn.Module = field(repr=False)
    """The modules that the function uses, and those that it calls, as the children of one."""

    @property
    def main(self) -> ModuleCall | None:
        """The trained module that computes most under a gradient."""
        with_gradient = (each for each in self.calls if each.times > each.without_gradient)
        return next((each for each in with_gradient if any(p.requires_grad for p in each.module.parameters())), None)


class StepWatch:
    """What a function does while it runs: ``calls``, ``backwards``, ``optimizers``. ``used`` holds modules it uses."""

    def __init__(self, used: nn.Module) -> None:
        self.used = used
        self.names = {module: path for path, module in used.named_modules() if path}
        self.calls: dict[nn.Module, ModuleCall] = {}
        self.optimizers: dict[torch.optim.Optimizer, None] = {}
        self.backwards = self._depth = 0
        self._kept = Kept(used)

    @contextlib.contextmanager
    def watching(self) -> Iterator["StepWatch"]:
        """Note them until the block ends; then modules and optimizers are as they were."""
        call, backward = nn.Module.__call__, torch.autograd.backward

        def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return call(module, *args, **kwargs)
            self._depth += 1
            self._kept.module(module)
            try:
                with WorkCounter() as work:
                    return call(module, *args, **kwargs)
            finally:
                self._depth -= 1
                self._note(module, args, kwargs, work.flops)

        def differentiated(*args: Any, **kwargs: Any) -> Any:
            self.backwards += 1
            return backward(*args, **kwargs)

        def stepping(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.optimizers[optimizer] = None
            self._kept.optimizer(optimizer)

        with (
            self._kept,
            register_optimizer_step_pre_hook(stepping),
            mock.patch.object(nn.Module, "__call__", called),
            mock.patch("torch.autograd.backward", differentiated),
        ):
            yield self

    def _note(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], flops: int) -> None:
        plain = getattr(module, "_orig_mod", module)
        name = self.names.get(plain) or f"{type(plain).__name__}"
        known = self.calls.setdefault(plain, ModuleCall(name, plain))
        known.times += 1
        known.flops += flops
        if not torch.is_grad_enabled():
            known.without_gradient += 1
        elif not known.args and not known.kwargs:
            known.args, known.kwargs = _detached(args), _detached(kwargs)

    def step(self, name: str, run: Callable[[], Any]) -> WholeStep:
        """What was seen, of a step that ``run()`` does again."""
        calls = tuple(sorted(self.calls.values(), key=lambda each: -each.flops))
        for at, each in enumerate(calls):
            if each.module not in self.names:
                self.used.add_module(f"called_{at}", each.module)
        return WholeStep(name, run, calls, self.backwards, tuple(self.optimizers), self.used)


class Kept:
    """What modules and optimizers held when they were noted: ``restore()``, or the end of a block, gives it back."""

    def __init__(self, *modules: nn.Module) -> None:
        self._values: dict[Tensor, tuple[Tensor, Tensor | None, bool]] = {}
        self._states: dict[torch.optim.Optimizer, dict[str, Any]] = {}
        for each in modules:
            self.module(each)

    def __enter__(self) -> "Kept":
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def module(self, module: nn.Module) -> None:
        for each in (*module.parameters(), *module.buffers()):
            if each not in self._values:
                self._values[each] = each.detach().clone(), each.grad, each.requires_grad

    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer not in self._states:
            self._states[optimizer] = copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        with torch.no_grad():
            for each, (before, gradient, trained) in self._values.items():
                each.copy_(before)
                each.grad = gradient
                if each.is_leaf:  # a buffer need not be
                    each.requires_grad_(trained)
        for optimizer, state in self._states.items():
            optimizer.load_state_dict(state)


@contextlib.contextmanager
def attributes_kept(model: Any) -> Iterator[None]:
    """After the block each attribute of the modules names what it did before: a forward may put another tensor in a
    buffer's place, begin a cache, or count. ``model`` is a module, or a function that uses modules."""
    if not isinstance(model, nn.Module):
        function = callable(model) and not isinstance(model, type)
        model = FunctionModel(plain_function(model)) if function else nn.Module()
    held = [names for part in model.modules() for names in (vars(part), part._parameters, part._buffers)]
    before = [(names, dict(names)) for names in held if isinstance(names, dict)]  # a scripted module's are none
    try:
        yield
    finally:
        for names, values in before:
            names.clear()
            names.update(values)


@contextlib.contextmanager
def all_kept(step: WholeStep) -> Iterator[None]:
    """After the block, parameters, buffers, gradients and what optimizers remember are what they were."""
    with Kept(step.modules) as kept:
        for each in step.optimizers:
            kept.optimizer(each)
        yield


def _detached(value: Any) -> Any:
    """Arguments for a call of the module by itself: no graph of another module hangs on them."""
    found = {id(each): each.detach().clone() for each in tensors(value)}
    return tree_map(lambda each: found[id(each)] if isinstance(each, Tensor) else each, value)
