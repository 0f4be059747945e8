"""Which room is which chapter's, from the rooms that are there. A page cannot look: it has the table written out."""

import functools
import importlib
import pkgutil

import chapters


@functools.cache
def rooms() -> dict[str, str]:
    """The package of each chapter by its number: "chapters.overlap" of "13"."""
    packages = [each.name for each in pkgutil.iter_modules(chapters.__path__, f"{chapters.__name__}.") if each.ispkg]
    numbers = {getattr(importlib.import_module(package), "NUMBER", None): package for package in packages}
    return {number: package for number, package in sorted(numbers.items(), key=str) if number}
