"""The package's doors: a public function holds its callers to its annotations, before anything runs.

What a type cannot say a function checks itself: a size with ``check_whole``, a time or bytes with ``check_amount``.
"""

import functools
import importlib
import inspect
import re
import reprlib
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, cast

T = TypeVar("T", bound=Callable[..., Any])
LARGEST = 2**63 - 1  # of the numbers that torch counts with
LARGEST_SOURCE = 10_000_000  # bytes
FIRST_LINES = 12  # of a result at a cell's end
LONGEST_S = 1e9  # that locks and sockets can wait
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80


def door(public: T) -> T:
    """The same function or class; called with a value of another type than annotated, it raises a TypeError.

    The error names the argument, the value and the type. What has no annotation is not looked at. In a reader's page
    nothing is: typeguard is not there, and controls hand over what fits.
    """
    if sys.platform == "emscripten":
        return public
    if isinstance(public, type):
        public.__init__ = _checked(public.__init__, public.__name__)  # type: ignore[misc]  # its own, of no subclass
        return public
    return _checked(public, public.__name__)


class PrintedRepr:
    """A result that is shown at a cell's end in the words of ``print``, the first lines of them."""

    def __repr__(self) -> str:
        first, more = (lines := str(self).splitlines())[:FIRST_LINES], len(lines) - FIRST_LINES
        return "\n".join([*first, *([f"… {more} more lines, which print() shows"] if more > 0 else [])])


def on_demand(face: str, **where: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a face whose modules are slow to import: each name is taken from the module that ``where``
    says when somebody asks for it. A name of no module is an AttributeError.
    """

    def found(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{face}.{where[name]}"), name)

    return found


def check_whole(name: str, value: int, least: int = 1, most: int = LARGEST) -> None:
    """Raise ValueError, naming the input, unless it is a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        upwards = "" if most == LARGEST else f" to {most:,}"
        raise ValueError(f"{name} is {shown(value)}; it must be a whole number from {least}{upwards}")


def check_amount(name: str, *values: float) -> None:
    """Raise ValueError, naming the input, unless each value is a finite number from 0."""
    for value in values:
        if not 0 <= value <= sys.float_info.max:
            raise ValueError(f"{name} is {shown(value)}; it must be a finite number from 0")


def check_seconds(name: str, value: float) -> None:
    """Raise ValueError, naming the input, unless something can be waited for as long as that."""
    if not 0 < value <= LONGEST_S:
        raise ValueError(
            f"{name} is {shown(value)}; it must be a number of seconds above 0, and at most {LONGEST_S:.0e}"
        )


def is_source(path: Path) -> bool:
    """Whether a file is there to be read whole: no folder, no pipe or device without an end, nothing too large."""
    try:
        return path.is_file() and path.stat().st_size <= LARGEST_SOURCE
    except OSError:  # a name too long, a folder that may not be entered
        return False


def shown(value: object) -> str:
    """What an error says of a value: its repr, cut short."""
    return _repr.repr(value)


def _checked(function: T, name: str) -> T:
    from typeguard import CollectionCheckStrategy, TypeCheckError, check_type

    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:  # at the first call: an annotation may name what its module defines further down
        return typing.get_type_hints(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # Python itself says which argument is missing, or one too many
        for argument, value in given.items():
            kind, hint = signature.parameters[argument].kind, hints().get(argument, Any)
            if kind is inspect.Parameter.VAR_POSITIONAL:
                hint = GenericAlias(tuple, (hint, ...))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                hint = GenericAlias(dict, (str, hint))
            try:
                check_type(value, hint, collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
            except TypeCheckError as error:
                wanted = re.sub(r"[\w.]+\.(?=\w)", "", inspect.formatannotation(hint))
                why = "" if "\n" in str(error) else f" ({error})"
                raise TypeError(f"{name}: {argument} is {shown(value)}; it must be of type {wanted}{why}") from None
        return function(*args, **kwargs)

    return cast("T", checked)  # of the same signature, which wraps() copies
