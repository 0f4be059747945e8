"""The checks at the package's doors: each error names the input, the rule and so the way out."""

from __future__ import annotations

import math
import os
import reprlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")
LARGEST = 2**63 - 1  # of the numbers that torch counts with
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80


def whole(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """The same value, if it is an int from `least` to `most`; else ValueError.

    >>> from mini_model.inputs import whole
    >>> whole("layers", 4)
    4
    >>> whole("layers", 0)
    Traceback (most recent call last):
        ...
    ValueError: layers is 0; it must be a whole number from 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        upwards = "" if most == LARGEST else f" to {most}"
        raise ValueError(f"{name} is {shown(value)}; it must be a whole number from {least}{upwards}")
    return value


def positive(name: str, value: Any) -> float:
    """The same value, if it is a finite number above 0; else ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError(f"{name} is {shown(value)}; it must be a positive number, less than {math.inf}")
    return value


def one_of(name: str, value: Any, names: Iterable[str]) -> str:
    """The same value, if it is one of the names; else ValueError, which lists them.

    >>> from mini_model.inputs import one_of
    >>> one_of("mode", "eager", ("eager", "default"))
    'eager'
    >>> one_of("mode", "fast", ("eager", "default"))
    Traceback (most recent call last):
        ...
    ValueError: unknown mode 'fast'; the modes are eager, default
    """
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"unknown {name} {shown(value)}; the {name}s are {', '.join(names)}")
    return value


def instance(name: str, value: Any, *kinds: type[T]) -> T:
    """The same value, if it is of one of those kinds; else TypeError."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name} is {shown(value)}; it must be a {' or a '.join(kind.__name__ for kind in kinds)}")
    return value


def path(name: str, value: Any) -> Path:
    """The value as a Path. TypeError if it is neither text nor a path, ValueError if no file can have that name."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} is {shown(value)}; it must be a path, as text or a pathlib.Path")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} is {shown(value)}; no file's name has a zero character in it")
    return Path(value)


def is_there(path: Path) -> bool:
    """Whether anything is at that path. A name too long, or a folder that may not be entered: nothing is."""
    try:
        return path.exists()
    except OSError:
        return False


def device(value: Any) -> str:
    """The same device, as text, if this machine can train on it: "cpu", or a GPU that is there. Else ValueError."""
    instance("device", value, str, torch.device)
    try:
        if torch.device(value).type not in ("cpu", "cuda"):
            raise RuntimeError("cpu and cuda are the devices to train on")
        torch.empty(0, device=value)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device {shown(value)} cannot be used here ({reason}); try cpu") from error
    return str(value)


def shown(value: Any) -> str:
    """What an error says of a value: its repr, cut short."""
    return _repr.repr(value)
