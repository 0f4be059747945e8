"""Under which key may Inductor keep what a pass of the reader's own has changed? ``source_key(own)`` makes one.

Inductor keeps compiled graphs. A pass takes no part in a graph before it runs, so the key has to say which pass it
was: one whose key stays while its source changes is answered with the code of the old one. The key here is a hash of
the pass's source, of the functions of its own side that it calls, and of the constants that it reads.
"""

import dis
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from compile_lab.doors import door

KNOWN = (*sys.stdlib_module_names, "torch")
"""Packages whose version is in Inductor's own key, or does not matter to it: a name stands for what is theirs."""
PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, types.EllipsisType)
OPERATORS = type(torch.ops.aten.mm), type(torch.ops.aten.mm.default), type(torch.ops.aten), type(torch.ops)


class PassError(ValueError):
    """What is wrong with a pass: names it, the rule, and the way out."""


@door
def source_key(own: Callable[..., Any]) -> str:
    """A key for ``own``: 64 hexadecimal digits that change when its source does, or that of what it calls, or a
    constant that it reads. Another name for the same function changes nothing.

    Raises PassError, naming what it is, where the source is not to be found, or where the pass reads something that
    may change while its source stays: a list, a dict, an object with a state.
    """
    lines = list(_parts(own, name_of(own), set()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def name_of(own: Any) -> str:
    """What the reader calls a pass."""
    if isinstance(own, functools.partial):
        return name_of(own.func)
    return getattr(own, "__name__", type(own).__name__)


def _parts(value: Any, who: str, seen: set[int], called: str = "") -> Iterator[str]:
    """The texts of which a key is made; ``called`` is the name under which the pass knows the value."""
    if id(value) in seen:
        return
    match value:
        case types.FunctionType() | type() | types.MethodType() | types.BuiltinFunctionType():
            seen.add(id(value))
            yield from _code(value, who, seen)
        case types.ModuleType():
            yield _module(value)
        case functools.partial():
            yield from _parts(value.func, who, seen)
            yield from _parts((*value.args, *sorted(value.keywords.items())), who, seen, "an argument of the partial")
        case tuple() | frozenset():
            each = value if isinstance(value, tuple) else sorted(value, key=repr)
            for item in each:
                yield from _parts(item, who, seen, called)
        case _ if isinstance(value, PLAIN + OPERATORS):
            yield f"{called}={value!s}:{type(value).__name__}"
        case _ if not called and callable(value):  # the pass itself is an object with __call__
            yield from _parts(type(value), who, seen)
            for name, held in sorted(vars(value).items()):
                yield from _parts(held, who, seen, f"self.{name}")
        case _:
            raise PassError(
                f"{who} has no key: it reads {called}, a {type(value).__name__}, which can change while the source "
                "stays. Make it a constant or a tuple, or give key= yourself, and change it whenever the pass changes"
            )


def _code(value: Any, who: str, seen: set[int]) -> Iterator[str]:
    written = isinstance(value, types.FunctionType) and value.__module__ in (None, "builtins")  # by exec
    home = (getattr(value, "__module__", None) or "builtins").partition(".")[0]
    if home in KNOWN and not written:
        yield f"{value.__module__}.{value.__qualname__}"
        return
    try:
        lines, _ = inspect.getsourcelines(value)
    except (OSError, TypeError) as reason:
        raise PassError(
            f"{who} has no key: the source of {value.__qualname__} is not to be found. Define it in a file or in a "
            "notebook's cell, or give key= yourself, and change it whenever the pass changes"
        ) from reason
    yield inspect.cleandoc("".join(lines))
    if isinstance(value, type):
        for method in vars(value).values():
            if isinstance(method, types.FunctionType):
                yield from _read(method, who, seen)
    else:
        yield from _read(getattr(value, "__func__", value), who, seen)


def _read(function: types.FunctionType, who: str, seen: set[int]) -> Iterator[str]:
    """What a function's code looks up outside of itself: globals, cells, defaults."""
    for name in sorted(set(_globals(function.__code__))):
        if name in function.__globals__:
            yield from _parts(function.__globals__[name], who, seen, name)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if name != "__class__":
            yield from _parts(cell.cell_contents, who, seen, name)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _parts(default, who, seen, "a default")


def _globals(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals(inner)


def _module(module: types.ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if module.__name__.partition(".")[0] in KNOWN or file is None:
        return module.__name__
    return f"{module.__name__}:{hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
