"""How an entry of the atlas is written: a function that breaks the graph, and the function that does the same unbroken.

    @trigger("GB0170")
    def branch_on_a_value(x):
        return x + 1 if x.sum() > 0 else x - 1

    @cures(branch_on_a_value)
    def choose_in_the_graph(x):
        return torch.where(x.sum() > 0, x + 1, x - 1)

A trigger without a cure says why: ``no_cure(branch_on_a_value, "…")``.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

_ID = re.compile(r"GB\d{4}")


def three_numbers() -> tuple[torch.Tensor]:
    """The arguments of a trigger that names none: a float tensor, 1 to 3."""
    return (torch.arange(1.0, 4.0),)


@dataclass(frozen=True)
class AtlasCure:
    """A function that does what the trigger does, in one graph; ``config`` is Dynamo's configuration it needs."""

    function: Callable[..., Any]
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AtlasEntry:
    """A trigger of the kind ``id``, and its cure or the ``reason`` that there is none.

    ``arguments`` makes fresh arguments for each run. ``needs`` are the classes and functions that a reader must see
    beside the trigger. ``config`` is the configuration of Dynamo without which this kind does not come up.
    """

    id: str
    theme: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]] = three_numbers
    config: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Any, ...] = ()
    cure: AtlasCure | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The trigger's name, which no other entry has."""
        return self.function.__name__


_written: dict[str, AtlasEntry] = {}


def trigger(
    id: str, arguments: Callable[[], tuple[Any, ...]] = three_numbers, needs: tuple[Any, ...] = (), **config: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function below is refused by ``fullgraph=True`` with this id.

    Raises ValueError for an id of another form, and for a name that is taken.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is no id of a graph break: GB and four digits")

    def written(function: Callable[..., Any]) -> Callable[..., Any]:
        if function.__name__ in _written:
            raise ValueError(f"the atlas has an entry {function.__name__!r} already: give this one another name")
        theme = function.__module__.rpartition(".")[2].replace("_", " ")
        _written[function.__name__] = AtlasEntry(id, theme, function, arguments, config, needs)
        return function

    return written


def cures(broken: Callable[..., Any], **config: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function below does what ``broken`` does, in one graph. Raises ValueError for a second answer."""

    def written(function: Callable[..., Any]) -> Callable[..., Any]:
        _answer(broken, cure=AtlasCure(function, config))
        return function

    return written


def no_cure(broken: Callable[..., Any], reason: str) -> None:
    """``broken`` has no cure that keeps what it does, for this reason. Raises ValueError where it has an answer."""
    _answer(broken, reason=reason)


def written() -> dict[str, AtlasEntry]:
    """What has been written so far, by name, in the order of the files."""
    return dict(_written)


def source_of(function: Callable[..., Any], needs: tuple[Any, ...] = ()) -> str:
    """The function as it is written, without its place in the atlas, below what it needs."""
    return "\n\n\n".join([*("\n".join(_body(each)) for each in needs), "\n".join(_body(function))])


def _answer(broken: Callable[..., Any], **answer: Any) -> None:
    entry = _written.get(broken.__name__)
    if entry is None:
        raise ValueError(f"{broken.__name__!r} is no trigger of the atlas: write it above, under @trigger")
    if entry.cure or entry.reason:
        raise ValueError(f"{broken.__name__!r} has its cure or its reason already: an entry has one")
    _written[broken.__name__] = replace(entry, **answer)


def _body(function: Any) -> list[str]:
    lines = textwrap.dedent(inspect.getsource(function)).rstrip().splitlines()
    if re.match(r"@(trigger|cures)\(", lines[0]):
        first = next(at for at, line in enumerate(lines) if re.match(r"(async )?def |@(?!trigger|cures)", line))
        return lines[first:]
    return lines
