"""What can be measured: a row for each recording, and for each row a module with a function `record`, of the same name
if the row says no other.

Each room has its own, in the package ``experiments``; what several chapters read is in ``shared``.
"""

import functools
import importlib.util
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm  # in a notebook, a bar that leaves nothing behind

import chapters
from compile_lab.doors import door
from compile_lab.page.explore import PUBLISH

from .experiment import Experiment

Progress = Callable[[Iterable[Any]], Iterable[Any]]
"""Wraps a list of steps, as tqdm does; `iter` shows nothing."""


def _offered() -> Iterator[tuple[str, Experiment]]:
    """Name and row of each measurement, from the rooms that are there."""
    for room in pkgutil.iter_modules(chapters.__path__, f"{chapters.__name__}."):
        offers = f"{room.name}.experiments"
        if room.ispkg and importlib.util.find_spec(offers):
            for name, row in getattr(importlib.import_module(offers), "EXPERIMENTS", {}).items():
                yield name, replace(row, module=f"{offers}.{row.module or name}")


EXPERIMENTS = dict(sorted(_offered(), key=lambda each: each[0]))
"""What can be measured, by the name of its recording."""


@door
def measure(name: str, device: str, progress: Progress = iter, **options: Any) -> dict[str, Any]:
    """What the room's `experiments.<name>` measures on `device`, "cuda" or "cpu", as plain JSON values.

    The options are those of its `record`.

    Raises KeyError, naming those there are, for a name that nothing measures; ValueError for another device;
    UserWarning where torch leaves bf16 to eager mode, so that nothing eager is called compiled.
    """
    require(name)
    if device not in ("cuda", "cpu"):
        raise ValueError(f'device is {device!r}: it is "cuda" or "cpu"')
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*does not support bfloat16 compilation natively", UserWarning)
        row = EXPERIMENTS[name]
        return importlib.import_module(row.module).record(device, progress, **{**row.options, **options})


def require(*names: str) -> None:
    """Raises KeyError, naming those there are, for names that nothing measures."""
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        known = ", ".join(EXPERIMENTS)
        raise KeyError(f"nothing measures {', '.join(map(repr, unknown))}; there is {known}: give one of these names")


@door
def progress(description: str) -> Progress:
    """A tqdm that goes away when it is done, and that a published notebook does not show."""
    silent = os.environ.get(PUBLISH) == "1"
    return functools.partial(tqdm, desc=description, file=sys.stderr, leave=False, disable=silent)
