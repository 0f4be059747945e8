"""torch's own table of operators with inputs to try them on, op_db: what torch's tests run over."""

import contextlib
import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator, Mapping
from typing import Any

_SIDE = "S"
"""The name by which torch's samples call the length of a side: 5, which no two or four devices can share evenly."""


def operators() -> Mapping[str, Any]:
    """By name (``nn.functional.pad.circular``: its variant after it), each entry of torch's table. Takes 3 s once."""
    named = {}
    for info in _table():
        named[info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")] = info
    return named


@contextlib.contextmanager
def samples_with_sides_of(length: int) -> Iterator[None]:
    """While the block runs, torch's samples are made with this length where they mean "some length"."""
    _table()  # what is not imported yet has no side to be changed
    prefixes = ("torch.testing._internal.common_methods_invocations", "torch.testing._internal.opinfo")
    modules = [module for name, module in sys.modules.items() if name.startswith(prefixes)]
    before = [(module, getattr(module, _SIDE)) for module in modules if isinstance(getattr(module, _SIDE, None), int)]
    for module, _ in before:
        setattr(module, _SIDE, length)
    try:
        yield
    finally:
        for module, value in before:
            setattr(module, _SIDE, value)


def _table() -> list[Any]:
    _stand_in_for_expecttest()
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def _stand_in_for_expecttest() -> None:
    """torch's test modules import it, for a base class alone; it is no part of torch's installation."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = stand_in = types.ModuleType("expecttest")
        vars(stand_in)["TestCase"] = unittest.TestCase
