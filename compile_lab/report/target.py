"""What a report is asked about: ``FILE:FUNCTION``, read without running any of it."""

from pathlib import Path

from ..doors import is_source


class UnusableModel(ValueError):
    """What was handed over cannot be reported on: says which input, which rule, and the way out."""


def named(target: str) -> tuple[Path, str]:
    """The file and the name of the function. UnusableModel if it names none, or no Python file that is here."""
    file, _, function = target.rpartition(":")
    if not file or not function:
        raise UnusableModel(f"{target!r} names no function; write FILE:FUNCTION, such as train.py:make")
    path = Path(file)
    if path.suffix != ".py" or not is_source(path):
        raise UnusableModel(f"{path.name} is no Python file here; give the path of one that ends in .py")
    return path, function
