"""A function that computes a loss, or a whole step, as a module: the modules that it uses are its children."""

import functools
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
from torch import nn

from ..pickling import dumps


class FunctionModel(nn.Module):
    """``FunctionModel(loss_of)(*batch)`` is ``loss_of(*batch)``, and its parameters are those of the modules that the
    function uses: in its closure, among its globals, its defaults and what it is bound to, and in the functions that it
    calls by name. A copy calls copies of these modules, and of all else that the function holds, as an optimizer.

    >>> import torch
    >>> from compile_lab.judge.function import FunctionModel
    >>> net = torch.nn.Linear(4, 1)
    >>> def loss(x):
    ...     return net(x).square().mean()
    >>> [name for name, _ in FunctionModel(loss).named_parameters()]
    ['net.weight', 'net.bias']
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn
        there: set[int] = set()
        for name, each in _modules(fn, set()):
            if id(each) not in there:
                there.add(id(each))
                self.add_module(name if not hasattr(self, name) else f"{name}_{len(there)}", each)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FunctionModel":
        if not self._modules:
            return FunctionModel(self.fn)
        module = sys.modules.get(getattr(self.fn, "__module__", None) or "")
        by_name = module is not None and module.__name__ not in cloudpickle.list_registry_pickle_by_value()
        if by_name:  # what can be imported would be pickled by its name, and the modules it uses not copied
            cloudpickle.register_pickle_by_value(module)
        try:
            copied = pickle.loads(dumps(self.fn))
        finally:
            if by_name:
                cloudpickle.unregister_pickle_by_value(module)
        if (scope := _globals(copied)) is not _globals(self.fn):
            scope.pop("__name__", None)  # Dynamo would look names up in the module of that name, not in the copy
        return FunctionModel(copied)


def plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that torch.compile wrapped, or itself."""
    return getattr(fn, "_torchdynamo_orig_callable", fn)


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn if hasattr(fn, "__globals__") else type(fn).__call__, "__globals__", {})


def _modules(value: Any, seen: set[int], name: str = "model") -> Iterator[tuple[str, nn.Module]]:
    """The modules that hang on a value, each under the name that its holder has for it."""
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        yield name, getattr(value, "_orig_mod", value)
    elif _is_librarys(value):
        return
    elif isinstance(value, functools.partial):
        held = {name: value.func} | {f"argument_{at}": each for at, each in enumerate(value.args)} | value.keywords
        yield from _each(held, seen)
    elif inspect.ismethod(value):
        yield from _modules(value.__self__, seen)
        yield from _modules(value.__func__, seen)
    elif inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        yield from _each({**used.globals, **used.nonlocals, **(value.__kwdefaults__ or {})}, seen)
        yield from _each({f"default_{at}": each for at, each in enumerate(value.__defaults__ or ())}, seen)
    elif isinstance(value, list | tuple):
        yield from _each({f"{name}_{at}": each for at, each in enumerate(value)}, seen)
    elif isinstance(value, dict):
        yield from _each({str(key): each for key, each in value.items()}, seen)
    elif hasattr(value, "__dict__") and not inspect.ismodule(value):
        yield from _each(vars(value), seen)


def _each(held: dict[str, Any], seen: set[int]) -> Iterator[tuple[str, nn.Module]]:
    for name, value in held.items():
        yield from _modules(value, seen, name.replace(".", "_"))


def _is_librarys(value: Any) -> bool:
    """What trains is found where the reader's own code names it, and not inside torch's functions and optimizers."""
    owner = value if inspect.isfunction(value) else type(value)
    return str(owner.__module__).partition(".")[0] in ("torch", "numpy")
