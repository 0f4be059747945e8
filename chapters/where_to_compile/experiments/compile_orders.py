"""The whole grid of orders; pipeline schedules over compiled stages; DTensors compiled; artifacts on another rank."""

from dataclasses import dataclass
from typing import Any

from compile_lab.devices import ranks

from ...registry import Progress
from .. import artifacts, dtensors, grid, stages


@dataclass(frozen=True)
class Orders:
    """What `record` measured, read back."""

    cells: dict[grid.Case, grid.Cell]
    schedules: list[stages.Run]
    programs: list[dtensors.Outcome]
    loaded: list[artifacts.Loaded]


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Of each field of `Orders`, its rows as JSON."""
    meshes = (grid.ONE_AXIS, (2,)), (grid.TWO_AXES, (2, 2))
    found = {
        "cells": [cell for cases, shape in progress(meshes) for cell in grid.run(cases, shape)],
        "schedules": [stages.run(*each) for each in progress(schedules())],
        "programs": ranks.run(dtensors.on_rank, 2, echo=False)[0],
        "loaded": ranks.run(artifacts.on_rank, 2, echo=False)[1],
    }
    return {name: [row.to_json() for row in rows] for name, rows in found.items()}


def schedules() -> list[tuple[str, str]]:
    """Each schedule over stages compiled as torch does; those that split the backward the other ways, too."""
    return [
        (name, way) for way in stages.WAYS for name in (stages.SCHEDULES if way == stages.DONATED else stages.SPLIT)
    ]


def recorded(result: dict[str, Any]) -> Orders:
    """The rows of a recording."""
    cells = [grid.Cell.from_json(each) for each in result["cells"]]
    return Orders(
        {tuple(cell.steps): cell for cell in cells},
        [stages.Run.from_json(each) for each in result["schedules"]],
        [dtensors.Outcome.from_json(each) for each in result["programs"]],
        [artifacts.Loaded.from_json(each) for each in result["loaded"]],
    )
