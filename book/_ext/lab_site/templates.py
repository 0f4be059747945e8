"""What Python says in a page once a reader acts: the judges' answers and refusals, and the panels of any choice.

A judge's answers and an instrument's refusals are found in their sources. Each is a template, as
``compile_lab.page.phrases`` reads it: a string, or an f-string with ``{a}``, ``{b}`` … for what it takes over. Where a
part is a choice of words (``{'more' if short else 'fewer'}``, or a name that such a choice was given), there is a
template for each. What panels say is found by asking them for many choices.
"""

import ast
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from compile_lab.page.messages import JSON, Message, page_messages
from compile_lab.page.panels import answered

from .pages import page_files

JUDGES = ("chapters/exercises/*.py", "chapters/*/in_page.py", "compile_lab/simulator/pipeline_arranged.py")
INSTRUMENTS = ("compile_lab/doors.py", "compile_lab/simulator/*.py")
"""Of these what they raise: an explorer shows it, and an exercise's answer may bring it about."""
SENTENCE = re.compile(r"\b(?:[a-z]{2,}[,:;]? [a-zµ]+|an? [a-z]{2,})\b")
"""What no code and no data of an exercise has: two words in a row."""
PUT_TOGETHER = re.compile(r"\b[a-z]{2,} |[.:;] ")
"""What an f-string has that is said: one word is enough, or what stands between two parts."""
FORMAT = re.compile(r"\{\w*\}")
PART = "\0"


def by_judges(root: Path) -> list[str]:
    """The templates of all judges, in the order of their files."""
    return _collect(root, JUDGES, every=True)


def by_refusals(root: Path) -> list[str]:
    """The templates of what instruments raise."""
    judges = set(by_judges(root))
    return [text for text in _collect(root, INSTRUMENTS, every=False) if text not in judges]


def _collect(root: Path, sources: tuple[str, ...], every: bool) -> list[str]:
    paths = sorted({path for name in sources for path in root.glob(name)})
    trees = (ast.parse(path.read_text("utf-8")) for path in paths)
    return list(dict.fromkeys(text for tree in trees for text in _walk(tree, {}, every)))


def _walk(node: ast.AST, chosen: Mapping[str, list[str]], every: bool) -> Iterator[str]:
    """The templates in a piece of source: `every` one, or those of what it raises."""
    every = every or isinstance(node, ast.Raise)
    if isinstance(node, ast.FunctionDef):
        chosen = {**chosen, **_chosen(node)}
    if isinstance(node, ast.JoinedStr):
        pieces = [_pieces(part, chosen) for part in node.values]
        yield from _fitting(map("".join, itertools.product(*pieces)), PUT_TOGETHER if every else None)
        inside = [part.value for part, several in zip(node.values, pieces, strict=True) if several == [PART]]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _fitting([FORMAT.sub(PART, node.value)], SENTENCE if every else None)
        inside = []
    else:
        inside = [each for each in ast.iter_child_nodes(node) if not _documents(each)]
    for each in inside:
        yield from _walk(each, chosen, every)


def _fitting(texts: Iterable[str], wanted: re.Pattern[str] | None) -> Iterator[str]:
    for text in map(_template, texts if wanted else ()):
        if wanted and wanted.search(text) and "&lt;" not in text:  # a piece of HTML is no sentence
            yield text


def _documents(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _chosen(function: ast.FunctionDef) -> dict[str, list[str]]:
    """The names to which a function gives one of several words."""
    given: dict[str, list[str]] = {}
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and isinstance(name := each.targets[0], ast.Name):
            given.setdefault(name.id, []).extend(_words(each.value) or [PART])
    return {name: several for name, several in given.items() if set(several) != {PART}}


def _words(value: ast.AST) -> list[str]:
    """The words between which an expression chooses; none if it does anything else."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return [value.value]
    if isinstance(value, ast.IfExp):
        one, other = (_words(each) or _one_text(each) for each in (value.body, value.orelse))
        return one + other if one and other else []
    if isinstance(value, ast.BoolOp) and (last := _words(value.values[-1])):
        return [PART, *last]
    return []


def _one_text(value: ast.AST) -> list[str]:
    if not isinstance(value, ast.JoinedStr):
        return []
    return ["".join(PART if isinstance(part, ast.FormattedValue) else part.value for part in value.values)]


def _pieces(part: ast.expr, chosen: Mapping[str, list[str]]) -> list[str]:
    """What may stand at a place of an f-string."""
    if not isinstance(part, ast.FormattedValue):
        return _words(part)
    value = part.value
    return (chosen.get(value.id) if isinstance(value, ast.Name) else _words(value)) or [PART]


def _template(text: str) -> str:
    parts = (f"{{{letter}}}" for letter in ascii_lowercase)
    return re.sub(PART, lambda _: next(parts), Message(0, 0).masked(re.sub(r"\s+", " ", text)))


# ---- panels


def by_panels(site: Path, drawn: int = 60) -> list[str]:
    """The messages of the site's explorers, for each value of each control and for so many drawn choices."""
    found: dict[str, None] = {}
    for address, axes in _explorers(site):
        module, _, name = address.partition(":")
        panel = getattr(import_module(module), name)
        for choice in _choices(axes, drawn):
            found |= dict.fromkeys(each.text for each in page_messages(answered(panel, choice)._repr_html_()))
    return list(found)


def _explorers(site: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for path in sorted(page_files(site)):
        for _, script, _ in JSON.findall(path.read_text("utf-8")):
            if isinstance(value := json.loads(script), dict) and (live := value.get("live")):
                yield live["panel"], live["axes"]


def _choices(axes: list[dict[str, Any]], drawn: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(0)
    values = {axis["key"]: _values(axis, draw) for axis in axes}
    first = {axis["key"]: axis["stored"][0] for axis in axes}
    yield from (first | {key: value} for key, several in values.items() for value in several)
    yield from ({key: draw.choice(several) for key, several in values.items()} for _ in range(drawn))


def _values(axis: Mapping[str, Any], draw: random.Random) -> list[Any]:
    """What a reader may choose: every option; places of a slider, its ends and what lies beyond one of them."""
    if "all" in axis:
        return axis["all"]
    if "rows" in axis:
        rows = [row.split() for row in axis["rows"].split("|")]
        return [" | ".join(" ".join(draw.sample(row, len(row))) for row in rows) for _ in range(20)]
    low, high = axis["low"], axis["high"]
    grid = axis.get("grid") or [low + (high - low) * part / 8 for part in range(9)]
    whole = all(isinstance(axis[key], int) for key in ("low", "high", "start", "step"))
    return [
        axis["start"],
        low - 1,
        *((round(each) if whole else round(each, 2)) for each in grid[:: max(1, len(grid) // 8)]),
    ]
