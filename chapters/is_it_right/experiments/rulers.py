"""How far compiled results are from eager's, by two rulers, for steps that are right and for steps that are not."""

from __future__ import annotations

from typing import Any

from compile_lab.measure.timing import one_thread

from ...registry import Progress
from ..rulers import Measured, measured, right, wrong


def recorded(result: dict[str, Any]) -> list[Measured]:
    """The rows of a recording."""
    return list(map(Measured.from_json, result["rows"]))


def record(device: str, progress: Progress = iter, *, most: int | None = None) -> dict[str, Any]:
    """Every right step and every planted fault, at ``most`` so many of each. Returns ``{"rows"}`` of `Measured`."""
    with one_thread():
        todo = [*((*each, "") for each in list(right())[:most]), *list(wrong())[:most]]
        return {"rows": [measured(*each).to_json() for each in progress(todo)]}
