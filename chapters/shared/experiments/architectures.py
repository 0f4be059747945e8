"""The survey of fifty architectures that nobody here wrote, and the whole reports of six of them."""

from collections.abc import Sequence
from typing import Any

from compile_lab.report import survey
from compile_lab.report.architectures import ARCHITECTURES

from ...registry import Progress

SHOWN = ("GPT-2", "Llama", "BERT", "T5", "ViT", "ResNet-18")
"""Those whose reports are pages of the site."""


def record(device: str, progress: Progress = iter, *, names: Sequence[str] = tuple(ARCHITECTURES)) -> dict[str, Any]:
    """``{"rows": [what survey.row gives, each from a process of its own], "reports": {name: the report as data}}``."""
    rows = [survey.alone(name, whole=name in SHOWN) for name in progress(list(names))]
    return {"rows": rows, "reports": {each["name"]: each.pop("report") for each in rows if "report" in each}}
