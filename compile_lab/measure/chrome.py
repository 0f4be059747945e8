"""A Chrome trace as torch writes it. torch's C++ writes labels as they are, so a file of its need not be JSON."""

import gzip
import inspect
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from torch.profiler import profile

_SPAN = re.compile(r'"ph":\s*"X",(\s*)"cat":\s*"[^"\n]*",\1"name":\s*"(.*?)",\1"pid":')
"""What an event begins with. What stands between its entries is a new line, which no label has, or else one space."""
_TRACE_NAME = re.compile(r'"traceName":\s*"(.*)"\s*\}\s*\Z')
_ENDS_TOO_SOON = re.compile(r'(?<!\\)"')
_PYTHONS = "use_python_export"
"""The exporter that torch has in Python, since 2.13: it writes labels as JSON, and as often as it is asked."""


def exported(profiler: profile) -> Any:
    """The trace of a profiler that has stopped; as often as it is asked for, and after an export of the caller's own.

    Raises ValueError for a profiler that did not run, still runs, or whose trace torch cannot write as JSON. Before
    torch 2.13 also for one that was exported: its file is what can be read.
    """
    if profiler.profiler is None or profiler.profiler.kineto_results is None:
        raise ValueError(
            "the profiler has no trace: it never started, or has not stopped. Read it after its with block, or stop(), "
            "and after a step in which its schedule records"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        if _PYTHONS in inspect.signature(profiler.export_chrome_trace).parameters:
            profiler.export_chrome_trace(str(path), **{_PYTHONS: True})
        else:
            _export_once(profiler, path)
        return parsed(path.read_bytes(), "the profiler's trace")


def _export_once(profiler: profile, path: Path) -> None:
    try:
        profiler.export_chrome_trace(str(path))
    except RuntimeError as error:
        raise ValueError(
            f"the profiler's trace cannot be had again ({error}): before torch 2.13 it is exported once. Read the file "
            "that export_chrome_trace wrote, or keep what read(profiler) returned"
        ) from error


def parsed(raw: bytes, what: str) -> Any:
    """What a trace's file holds, zipped or not. A double quote in a label of torch's is read as part of the label.

    Raises ValueError, which begins with ``what``, for what is no JSON: cut off, or with a text in it that torch wrote
    as it was. It names the event.
    """
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(_cut_off(what, error)) from error
    text = _TRACE_NAME.sub(_escaped, _SPAN.sub(_escaped, text))
    try:
        return json.loads(text, strict=False)  # a tab in a text stays one
    except json.JSONDecodeError as error:
        raise ValueError(_unreadable(what, text, error)) from error


def _escaped(found: re.Match) -> str:
    start, end = (at - found.start() for at in found.span(found.lastindex or 0))
    return found[0][:start] + _ENDS_TOO_SOON.sub(r'\\"', found[0][start:end]) + found[0][end:]


def _unreadable(what: str, text: str, error: json.JSONDecodeError) -> str:
    if not text.rstrip().endswith("}") or error.pos >= len(text.rstrip()):
        return _cut_off(what, error)
    labels = [found[2].replace('\\"', '"') for found in _SPAN.finditer(text) if found.start() < error.pos]
    where = f"in or after the event {labels[-1]!r}" if labels else "before its first event"
    line = text.splitlines()[error.lineno - 1].strip()
    return (
        f"{what} is no JSON ({error}), {where}: {line[:200]!r}. torch writes arguments, metadata and names of threads "
        "as they are, and a double quote or a backslash in one ends the text. Leave it out of what the program names "
        "there (with record_shapes=True texts given to operators are among them), and profile again"
    )


def _cut_off(what: str, error: Exception) -> str:
    return f"{what} is not a whole JSON file ({error}): was the profiler stopped before it was exported?"
