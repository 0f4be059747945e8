"""Every known fault, and what each torch made of it when ``book/tools/known_faults.py`` ran them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compile_lab.doors import door

from . import aot, dynamo, inductor
from .catalogue import REGISTRY, RIGHT, STAGES, WRONG

MODULES = (dynamo, aot, inductor)
FAULTS = dict(sorted(REGISTRY.items(), key=lambda each: STAGES.index(each[1].stage)))
"""Every fault by its number, in the order of the stages."""
KEPT = Path(__file__).with_name("board.json")
"""What ``book/tools/known_faults.py`` found."""


@door
def board() -> dict[str, dict[str, Any]]:
    """What each torch made of the faults: ``{"provenance", "faults", "bisector", "minifier"}`` by its version, with the
    device where that is a GPU; the oldest first.

    >>> from chapters.is_it_right.faults import board
    >>> board()["2.13.0"]["faults"]["186281"]["inductor"]
    'wrong'
    """
    kept = json.loads(KEPT.read_text("utf-8"))
    return {version: kept[version] for version in sorted(kept, key=_age)}


def _age(version: str) -> tuple[list[int], str]:
    number, _, device = version.partition(", ")
    return [*map(int, number.split("."))], device


def fate(row: Mapping[str, str]) -> str:
    """What became of a fault, all backends taken together: "wrong" if one is, "raises" if one does, or "right"."""
    return next((word for word in (WRONG, "raises") if any(each.startswith(word) for each in row.values())), RIGHT)
