"""What the worker answers to a request: the report on the reader's model, or why there is none."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..virtual_gpu.client import started
from .captured import report_parts
from .compare import earlier, moved
from .given import loaded, raised, way_out
from .limits import limited
from .model import build_report, checked
from .model_view import page

EXTRA_PHASES = 6
"""Phases besides the parts: import, function, first forward, first backward, the way to the virtual GPU, the page."""


def answer(request: dict[str, Any], tell: Callable[..., None]) -> dict[str, str]:
    """The last word: the report, or why there is none. ``tell`` is told each phase, as it begins."""
    running = "the start"
    phases = 0

    def begins(name: str) -> None:
        nonlocal running
        running = name
        tell(phase=name, limit_s=float(request["limit_s"]), of=phases)

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        begins(name)
        with limited(request["limit_s"]):
            yield

    try:
        options = checked(request["chip"], request["devices"], request["pattern"], request["limit_s"], request["judge"])
        phases = EXTRA_PHASES + len(report_parts(options))
        before = earlier(Path(request["compare"])) if request["compare"] else None
        sys.argv = [request["target"].rpartition(":")[0]]
        with started(options.chip):  # takes seconds, as the import of the reader's file does
            subject = loaded(request["target"], request["fake"], phase)
        begins("the way to the virtual GPU")
        found = build_report(subject, options, begins)
        begins("the page")
        if before:
            found = replace(found, cards=(moved(before, found), *found.cards))
        data = request["json"]
        text = json.dumps(found.as_data(), indent=1, ensure_ascii=False) + "\n" if data else page(found)
        return {"report": text, "summary": str(found)}
    except ValueError as error:
        return {"refused": str(error)}
    except BaseException as error:
        todo = way_out(error, "it must run to its end in eager mode first")
        return {"refused": f"during {running} came {raised(error)}; {todo}"}
