"""The reader's own model, as it is handed over: a module, what it is called with, and what its loss is.

``given(model, batch)`` looks whether that can be trained, by one eager call; ``loaded("FILE:FUNCTION")`` finds both in
a file. What cannot be used is refused with an `UnusableModel` that names the input, the rule and the way out.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn

from .._torch.dispatcher import among_fakes, fake_tensors
from ..dynamo.recompiles import described
from ..tensors import tensors

RULES = {
    "itself": "the model's result is the loss",
    "attribute": "the loss is the result's `.loss`",
    "key": "the loss is the result's `['loss']`",
    "mean": "the result holds no loss, so the mean of its first floating tensor stands for one",
}
"""What is taken for the loss, and how the report says it."""


class UnusableModel(ValueError):
    """What was handed over cannot be reported on: says which input, which rule, and the way out."""


class LossOf(nn.Module):
    """A model whose result is reduced to its loss by one of `RULES`."""

    def __init__(self, model: nn.Module, rule: str) -> None:
        super().__init__()
        self.model, self.rule = model, rule

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return loss_of(self.model(*args, **kwargs), self.rule)


@dataclass(frozen=True)
class GivenModel:
    """A model and its batch. ``model`` is never the wrapper that torch.compile makes; ``was_compiled`` says if it was.

    ``optimizer`` is the reader's own, if one was handed over.
    """

    name: str
    model: nn.Module = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)
    rule: str
    was_compiled: bool = False
    optimizer: torch.optim.Optimizer | None = None
    unused: tuple[str, ...] = ()
    """Trained parameters that the loss does not hang on, as one eager backward says."""
    makes_cache: bool = False
    """Whether the result holds keys and values for a generation, as a transformers model's may."""

    @property
    def loss(self) -> nn.Module:
        """What is differentiated: the model itself if its result is the loss, else the model in a `LossOf`."""
        return self.model if self.rule == "itself" else LossOf(self.model, self.rule)

    @property
    def fakes(self) -> AbstractContextManager[Any]:
        """What has to be entered to call the model: nothing, or what keeps new tensors as fake as its own."""
        return among_fakes((*self.model.parameters(), *tensors((self.args, dict(self.kwargs)))))

    @property
    def batch(self) -> str:
        """What the model is called with, in a few words."""
        return described(*self.args, **self.kwargs)

    def titled(self, title: str) -> str:
        """A parameter's path as the reader's own model has it."""
        return title if self.rule == "itself" else title.removeprefix("model.")


def loss_of(result: Any, rule: str) -> Tensor:
    """The loss in a model's result, float and of one number."""
    match rule:
        case "itself":
            return result
        case "attribute":
            return result.loss
        case "key":
            return result["loss"]
        case _:
            return next(each for each in tensors(_plain(result)) if each.is_floating_point()).float().mean()


def given(model: Any, batch: Any, optimizer: Any = None, name: str = "") -> GivenModel:
    """The model with its batch, after one eager call of it. UnusableModel for what cannot be trained so."""
    if not isinstance(model, nn.Module):
        raise UnusableModel(f"model is a {type(model).__name__}; it must be a torch.nn.Module: put a function into one")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise UnusableModel(f"the third thing returned is a {kind}; it must be a torch.optim.Optimizer, or be left out")
    plain = getattr(model, "_orig_mod", model)
    args, kwargs = _called_with(batch)
    if not any(parameter.requires_grad for parameter in plain.parameters()):
        raise UnusableModel("no parameter of the model has requires_grad=True, so there is no training step to look at")
    if any(each.is_meta for each in (*plain.parameters(), *tensors((args, kwargs)))):
        # AOTAutograd leaves out what it finds on "meta": its joint graph would be of one operation, and look right.
        raise UnusableModel(
            "the model or its batch is on the meta device; build both on the CPU; with --fake they take no memory"
        )
    fakes = among_fakes((*plain.parameters(), *tensors((args, kwargs))))
    try:
        with fakes, torch.enable_grad():
            result = plain(*args, **kwargs)
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise UnusableModel(
            f"the model refused its batch ({described(*args, **kwargs)}): {type(error).__name__}: {said[:300]}; "
            "the batch must be what model(**batch) takes if it is a dict, model(*batch) if a tuple, model(batch) else"
        ) from error
    rule = _rule(result)
    with fakes:
        unused = _unused(plain, loss_of(result, rule), RULES[rule])
    cache = getattr(result, "past_key_values", None) is not None
    name = name or type(plain).__name__
    return GivenModel(name, plain, args, kwargs, rule, plain is not model, optimizer, unused, cache)


def loaded(target: str, fake: bool = False) -> GivenModel:
    """The model and batch that ``FILE:FUNCTION`` returns. UnusableModel says what is wrong with file or function.

    With ``fake`` the function is called under fake tensors, so that a model of any size takes no memory.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise UnusableModel(f"{target!r} names no function; write FILE:FUNCTION, such as train.py:make")
    function = _function(_module(Path(file)), name, file)
    try:
        with fake_tensors() if fake else contextlib.nullcontext():
            made = function()
    except (Exception, SystemExit) as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise UnusableModel(
            f"{Path(file).name}:{name}() raised {type(error).__name__}: {said[:300]}; it is called without arguments "
            "and must return a model and a batch"
        ) from error
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise UnusableModel(
            f"{Path(file).name}:{name}() returned {type(made).__name__}; it must return (model, batch), "
            "or (model, batch, optimizer)"
        )
    return given(*made, name=f"{type(getattr(made[0], '_orig_mod', made[0])).__name__} of {Path(file).name}")


def _unused(model: nn.Module, loss: Tensor, told: str) -> tuple[str, ...]:
    """The trained parameters that get no gradient. No ``.grad`` is touched."""
    if not loss.requires_grad:
        raise UnusableModel(f"{told}, and it needs no gradient: return a loss that hangs on the parameters")
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    try:
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    except RuntimeError as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise UnusableModel(f"the backward of the loss raised {said[:300]}; it must run in eager mode first") from error
    return tuple(name for name, gradient in zip(trained, gradients, strict=True) if gradient is None)


def _called_with(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, Mapping):
        if wrong := [key for key in batch if not isinstance(key, str)]:
            raise UnusableModel(f"the batch is a dict with the key {wrong[0]!r}; keys are the names of arguments")
        args, kwargs = (), dict(batch)
    elif isinstance(batch, tuple | list):
        args, kwargs = tuple(batch), {}
    else:
        args, kwargs = (batch,), {}
    if not tensors((args, kwargs)):
        raise UnusableModel(
            f"the batch is a {type(batch).__name__} without a tensor; give what the model is called with"
        )
    return args, kwargs


def _rule(result: Any) -> str:
    if isinstance(result, Tensor) and result.ndim == 0:
        return "itself"
    if isinstance(result, Mapping) and isinstance(result.get("loss"), Tensor) and not hasattr(result, "loss"):
        return "key"
    if isinstance(getattr(result, "loss", None), Tensor):
        return "attribute"
    if any(each.is_floating_point() for each in tensors(_plain(result))):
        return "mean"
    raise UnusableModel(f"the model's result is a {type(result).__name__} without a floating tensor: return its loss")


def _plain(result: Any) -> Any:
    """A result of which a tree can be made: some libraries return mappings of their own."""
    return dict(result) if isinstance(result, Mapping) else result


def _function(module: ModuleType, name: str, file: str) -> Callable[[], Any]:
    function = getattr(module, name, None)
    if not callable(function):
        known = ", ".join(key for key, value in vars(module).items() if _is_own(value, module)) or "none"
        raise UnusableModel(f"{Path(file).name} has no function {name!r}; its functions are: {known}")
    return function


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == module.__name__


def _module(path: Path) -> ModuleType:
    """The file as a module; files beside it can be imported. It travels to the virtual GPU by value."""
    if path.suffix != ".py" or not path.is_file():
        raise UnusableModel(f"{path.name} is no Python file here; give the path of one that ends in .py")
    name = path.stem if path.stem not in sys.modules and path.stem.isidentifier() else f"given_{abs(hash(path)):x}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that ends itself is no module
        del sys.modules[name]
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UnusableModel(
            f"{path.name} cannot be imported: {type(error).__name__}: {str(error).partition(chr(10))[0]}{line}; "
            f"it must run to its end, as in python {path.name}"
        ) from error
    cloudpickle.register_pickle_by_value(module)
    return module
