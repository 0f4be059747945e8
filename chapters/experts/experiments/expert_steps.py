"""Compiled expert parallel on four ranks: on which step each one compiles, and what a slow compilation does."""

from dataclasses import dataclass
from typing import Any

from ...registry import Progress
from .. import steps


@dataclass(frozen=True)
class Steps:
    """What `record` measured, read back."""

    cases: dict[str, list[steps.Compiled]]
    """By the names of `steps.CASES`, each rank's."""
    hang: list[str]
    """What each rank says in `steps.hang`."""


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Each case on four ranks, and the hang."""
    cases = {name: [each.to_json() for each in steps.run(case)] for name, case in progress(steps.CASES.items())}
    return {"cases": cases, "hang": steps.hang()}


def recorded(result: dict[str, Any]) -> Steps:
    """The rows of a recording."""
    cases = {name: [steps.Compiled.from_json(each) for each in rows] for name, rows in result["cases"].items()}
    return Steps(cases, result["hang"])
