"""What the words of a command line mean, for argparse: each is refused with the rule that it breaks."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress

from . import inputs
from .parallel.patterns import PATTERNS


def sizes(text: str) -> dict[str, int]:
    """Sizes of a mesh's axes, such as shard=2,tp=4.

    >>> from mini_model.arguments import sizes
    >>> sizes("shard=2,tp=4")
    {'shard': 2, 'tp': 4}
    """
    pairs = [pair.partition("=") for pair in text.split(",")]
    axes = sorted({axis for pattern in PATTERNS.values() for axis in pattern.axes})
    if not all(name in axes and size.isdecimal() and int(size) for name, _, size in pairs):
        raise argparse.ArgumentTypeError(
            f"{text!r} are not sizes of axes, such as shard=2,tp=4: whole numbers from 1, of {', '.join(axes)}"
        )
    return {name: int(size) for name, _, size in pairs}


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or not 1 <= int(text) <= inputs.LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """A whole number from 0 to 2**63 - 1."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**63 - 1")
    return int(text)


def rate(text: str) -> float:
    """A positive number."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return found


def device(text: str) -> str:
    """A device to train on that is there."""
    try:
        return inputs.device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def amount(text: str) -> float:
    """Zero, or a positive number."""
    with suppress(ValueError):
        if float(text) == 0:
            return 0.0
    return rate(text)
