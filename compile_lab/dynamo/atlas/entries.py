"""How an entry of the atlas is written: a function that breaks the graph, and the function that does the same unbroken.

    @trigger("GB0170")
    def branch_on_a_value(x):
        return x + 1 if x.sum() > 0 else x - 1

    @cures(branch_on_a_value)
    def choose_in_the_graph(x):
        return torch.where(x.sum() > 0, x + 1, x - 1)

A trigger without a cure says why: ``no_cure(branch_on_a_value, "…")``.
"""

import ast
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..._torch import breaks

_ID = re.compile(r"GB\d{4}")


def three_numbers() -> tuple[torch.Tensor]:
    """The arguments of a trigger that names none: a float tensor, 1 to 3."""
    return (torch.arange(1.0, 4.0),)


@dataclass(frozen=True)
class AtlasCure:
    """A function that does what the trigger does, in one graph; ``config`` is Dynamo's configuration it needs.

    ``leaves_out`` says what it does not do that the trigger does, or for which inputs alone it is the same.
    """

    function: Callable[..., Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    leaves_out: str = ""


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
    """The function below is refused with this id by ``fullgraph=True``, or where that captures it breaks the graph.

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


def cures(
    broken: Callable[..., Any], leaves_out: str = "", **config: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function below does what ``broken`` does, in one graph, but for what it ``leaves_out``.

    Raises ValueError for a second answer.
    """

    def written(function: Callable[..., Any]) -> Callable[..., Any]:
        _answer(broken, cure=AtlasCure(function, config, leaves_out))
        return function

    return written


def no_cure(broken: Callable[..., Any], reason: str) -> None:
    """``broken`` has no cure that keeps what it does, for this reason. Raises ValueError where it has an answer."""
    _answer(broken, reason=reason)


def written() -> dict[str, AtlasEntry]:
    """What has been written so far, by name, in the order of the files."""
    return dict(_written)


def source_of(function: Callable[..., Any], needs: tuple[Any, ...] = (), arguments: Any = three_numbers) -> str:
    """The function as it is written, without its place in the atlas, below what it and its arguments need."""
    known = [*needs, function]
    used = _names(function.__code__) + (_names(arguments.__code__) if arguments.__name__ == "<lambda>" else [])
    wanted = {*used} - {getattr(each, "__name__", "") for each in known}
    fakes = {f"{name}.register_fake" for name in wanted}
    text = inspect.getsource(sys.modules[function.__module__])
    helpers = [
        "\n".join(
            text.splitlines()[min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1 : node.end_lineno]
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (node.name in wanted or fakes & {ast.unparse(each) for each in node.decorator_list})
    ]
    return "\n\n\n".join([*_assigned(function), *helpers, *("\n".join(_body(each)) for each in known)])


def arguments_of(entry: AtlasEntry) -> str:
    """The arguments as they are written; "" for those that an entry has which names none."""
    if entry.arguments is three_numbers:
        return ""
    if entry.arguments.__name__ != "<lambda>":
        return source_of(entry.arguments)
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(entry.function))).body
    assert isinstance(written, ast.FunctionDef)
    for decorator in written.decorator_list:
        if isinstance(decorator, ast.Call) and len(decorator.args) > 1 and isinstance(decorator.args[1], ast.Lambda):
            return ast.unparse(decorator.args[1].body)
    return ""


def _names(code: types.CodeType) -> list[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for each in inner for name in _names(each))]))


def _assigned(function: Callable[..., Any]) -> list[str]:
    """Lines that give the values which the function names: torch's private names, and its file's plain values."""
    wanted = set(_names(function.__code__))
    text = inspect.getsource(sys.modules[function.__module__])
    lines = [
        f"from {node.module} import {ast.unparse(alias)}"
        for node in ast.parse(inspect.getsource(breaks)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (name := alias.asname or alias.name) in wanted and function.__globals__.get(name) is getattr(breaks, name)
    ]
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id in wanted for each in targets):
            lines.append(ast.unparse(node))
    return ["\n".join(lines)] if lines else []


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
