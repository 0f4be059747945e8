"""The break atlas: every kind of graph break that it has a trigger for, and what became of the trigger's cure."""

from typing import Any

from compile_lab.dynamo.atlas import run

from ...registry import Progress


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Each entry of the atlas, run: ``{"registry": kinds in torch's own list, "entries": [AtlasResult as a dict]}``."""
    return run.as_record([run.judge(entry) for entry in progress(list(run.load().values()))])
