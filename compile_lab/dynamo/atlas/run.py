"""Run the atlas: does each trigger give its id, and does each cure do in one graph what the trigger does eagerly?"""

import contextlib
import functools
import importlib
import io
import json
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..._torch.dynamo import break_registry, dynamo_config, error_on_graph_break, reset_dynamo
from ...recordings import RecordedRow
from .entries import AtlasCure, AtlasEntry, arguments_of, source_of, written
from .same import same, state

_RAISED = "raised"
_ID = re.compile(r"gb/(gb\d{4})\.html", re.IGNORECASE)


@dataclass(frozen=True)
class AtlasResult(RecordedRow):
    """What came of an entry. ``kind``, ``explanation`` and ``hints`` are torch's words in this run, not ours.

    ``found`` is the id that torch gave, or None where there was none. ``cured`` is None where there is a ``reason``;
    ``trouble`` is what kept a trigger or a cure from holding, else "". ``arguments`` is how they are written, "" for a
    float tensor, 1 to 3; ``leaves_out`` what the cure does not do that the trigger does. ``captured`` is True where
    ``fullgraph=True`` takes the trigger in, and only a plain ``torch.compile`` breaks the graph.
    """

    name: str
    id: str
    found: str | None
    theme: str
    kind: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    trigger: str
    cure: str | None
    reason: str | None
    broke: bool
    cured: bool | None
    trouble: str
    config: Mapping[str, Any]
    cure_config: Mapping[str, Any]
    eager_raises: bool
    arguments: str = ""
    leaves_out: str = ""
    captured: bool = False

    @property
    def holds(self) -> bool:
        """The trigger gave its id, and the cure, where there is one, did the same in one graph."""
        return self.broke and self.cured is not False


@functools.cache
def load() -> Mapping[str, AtlasEntry]:
    """All entries by name, theme by theme."""
    from . import themes

    for module in sorted(each.name for each in pkgutil.iter_modules(themes.__path__)):
        importlib.import_module(f"{themes.__name__}.{module}")
    return written()


def as_record(results: Sequence[AtlasResult]) -> dict[str, Any]:
    """The results as JSON holds them: a recording's ``result``."""
    return {"registry": len(registry()), "entries": [asdict(each) for each in results]}


def registry() -> dict[str, str]:
    """Torch's own list of the kinds of graph break, by id; read from the installed wheel."""
    return {id: versions[0]["Gb_type"] for id, versions in json.loads(break_registry.read_text()).items()}


def judge(entry: AtlasEntry) -> AtlasResult:
    """Run one entry: its trigger, compiled and eagerly, and its cure in one graph."""
    strict = _message(entry, fullgraph=True)
    said = strict or _message(entry, fullgraph=False)
    match = _ID.search(said)
    found = match.group(1).upper() if match else None
    trouble = "" if found == entry.id else f"gave {found}: {said[:300]}"
    cured = None
    eager = _ran(entry.function, entry, entry.config)
    if entry.cure:
        different = _difference(entry, entry.cure, eager)
        cured = not different
        trouble = trouble or different
    return AtlasResult(
        entry.name,
        entry.id,
        found,
        entry.theme,
        said.splitlines()[0] if said else "",
        _part(said, "Explanation"),
        tuple(re.findall(r"^  Hint: (.*?)(?=^  \S|\n\n|\Z)", said, re.MULTILINE | re.DOTALL)),
        _part(said, "Developer debug context"),
        source_of(entry.function, entry.needs, entry.arguments),
        source_of(entry.cure.function) if entry.cure else None,
        entry.reason,
        found == entry.id,
        cured,
        trouble,
        _plain(entry.config),
        _plain(entry.cure.config) if entry.cure else {},
        _raised(eager[0]),
        arguments_of(entry),
        entry.cure.leaves_out if entry.cure else "",
        bool(said) and not strict,
    )


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as JSON holds it: a set of functions by their names."""
    return {
        name: f"{{{', '.join(sorted(each.__name__ for each in value))}}}" if isinstance(value, set) else value
        for name, value in config.items()
    }


def _message(entry: AtlasEntry, fullgraph: bool) -> str:
    with _quiet(entry.config), error_on_graph_break(True):
        try:
            torch.compile(entry.function, backend="eager", fullgraph=fullgraph)(*entry.arguments())
        except Exception as error:  # whatever it is, its message is the result
            return _without_paths(str(error))
    return ""


def _difference(entry: AtlasEntry, cure: AtlasCure, eager: tuple[Any, ...]) -> str:
    """What the cure, compiled, does otherwise than the trigger does eagerly; "" where it is the same."""
    compiled = torch.compile(cure.function, backend="eager", fullgraph=True)
    cured = _ran(compiled, entry, cure.config)
    parts = ("result", "arguments", "output", "random state")
    return "; ".join(
        f"the cure's {part} differs: {a!r} against {b!r}"[:400]
        for part, a, b in zip(parts, eager, cured, strict=True)
        if not same(a, b)
    )


def _ran(function: Callable[..., Any], entry: AtlasEntry, config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a call leaves behind: its result or its error, its arguments afterwards, what it printed, the generator."""
    with _quiet(config), contextlib.redirect_stdout(io.StringIO()) as printed:
        arguments = entry.arguments()
        try:
            result = function(*arguments)
        except Exception as error:
            result = (_RAISED, type(error).__name__, str(error)[:200])
        return state(result), state(arguments), printed.getvalue(), torch.get_rng_state()


@contextlib.contextmanager
def _quiet(config: Mapping[str, Any]) -> Iterator[None]:
    reset_dynamo()
    torch.manual_seed(0)
    with warnings.catch_warnings(), dynamo_config.patch(**config), torch.enable_grad():  # some leave it switched off
        warnings.simplefilter("ignore")
        yield
    reset_dynamo()


def _raised(result: Any) -> bool:
    return type(result) is tuple and len(result) == 3 and type(result[0]) is str and result[0] == _RAISED


def _part(message: str, heading: str) -> str:
    match = re.search(rf"^  {heading}: (.*?)(?=^  \S|\n\n|\Z)", message, re.MULTILINE | re.DOTALL)
    return match.group(1).strip() if match else ""


def _without_paths(message: str) -> str:
    """The message without addresses and folders, which differ from run to run."""
    message = re.sub(r"0x[0-9a-f]{6,}", "0x…", message)
    message = re.sub(r"(?:/[\w.+-]+)+/site-packages/", "", message)
    return re.sub(r"(?:/[\w.+-]+)+/([\w.+-]+\.py)", r"\1", message)
