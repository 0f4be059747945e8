"""Results from real hardware: JSON files under `book/recordings/<device>/<name>.json`.

    {"provenance": {"device", "torch", "triton", "cuda", "date", "command", "cpu"}, "result": {...}}

A file is checked whenever it is read: a result is shown with where it comes from, or not at all.
"""

import datetime
import functools
import json
import math
import os
import platform
import re
import tempfile
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from importlib import metadata
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, Self

from .doors import door

# The devices that the book's text speaks of, a GPU and a CPU; another one is shown when it is asked for.
REFERENCES = ("nvidia-h200", "cpu-2-cores")
LARGEST_FILE = 16_000_000  # bytes
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NAME_RULE = "a letter, then letters, digits and underscores, all lower-case"


class RecordingError(Exception):
    """A recording that is not there, or is not what the book can show: says which file, which rule, the way out."""


@door
@dataclass(frozen=True)
class Provenance:
    """Where a result comes from. Prints as the line that stands under a figure.

    `kind`: "live" was measured in this run, "recorded" was measured on real hardware earlier, "virtual" was computed
    for hardware that is not here, and prints no day and no build of torch: the same release computes the same on any.
    `date` is a day, as 2026-11-21. `triton` and `cuda` are None where there is none.
    `cpu` names the processor, which issues a GPU's work, and its cores; recordings before 2026-11-24 do not say.

    >>> from compile_lab.recordings import Provenance
    >>> made = {"device": "NVIDIA H200", "torch": "2.13.0+cu130", "triton": "3.7.1", "cuda": "13.0"}
    >>> print(Provenance(**made, date="2026-11-21", command="python bench.py", kind="recorded"))
    recorded on NVIDIA H200 · torch 2.13.0+cu130 · triton 3.7.1 · CUDA 13.0 · 2026-11-21
    >>> print(Provenance(**made, date="2026-11-21", command="python bench.py", kind="virtual"))
    computed, not measured, for NVIDIA H200 · torch 2.13.0 · triton 3.7.1 · CUDA 13.0
    """

    device: str
    torch: str
    triton: str | None
    cuda: str | None
    date: str
    command: str
    kind: Literal["live", "recorded", "virtual"] = "live"
    cpu: str | None = None

    def __str__(self) -> str:
        begin = {"live": "measured live on", "recorded": "recorded on", "virtual": "computed, not measured, for"}
        measured = self.kind != "virtual"
        on_cpu = self.cpu and not self.cuda and measured
        release = self.torch if measured else self.torch.partition("+")[0]
        parts = [f"{begin[self.kind]} {self.cpu if on_cpu else self.device}", f"torch {release}"]
        if self.triton:
            parts.append(f"triton {self.triton}")
        if self.cuda:
            parts.append(f"CUDA {self.cuda}")
        if self.cuda and self.cpu:
            parts.append(f"host {self.cpu}")
        return " · ".join([*parts, self.date] if measured else parts)


@dataclass(frozen=True)
class Recording:
    """A result by name, and its provenance."""

    name: str
    provenance: Provenance
    result: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.name} ({', '.join(self.result)}) · {self.provenance}"


class RecordedRow:
    """A dataclass that a recording keeps as an object of JSON, and reads back the same: its base class.

    >>> from dataclasses import dataclass
    >>> from compile_lab.recordings import RecordedRow
    >>> @dataclass(frozen=True)
    ... class Step(RecordedRow):
    ...     times_ms: tuple[float, ...]
    >>> Step.from_json({"times_ms": [1.5, 2.0]})
    Step(times_ms=(1.5, 2.0))
    """

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The same from what a recording keeps. TypeError for a field that is missing or unknown."""
        return _row(cls, fields)

    def to_json(self) -> dict[str, Any]:
        """What JSON can hold."""
        return asdict(self)  # type: ignore[call-overload]  # subclasses are dataclasses


_hints = functools.cache(typing.get_type_hints)


def _row(kind: type, fields: Mapping[str, Any]) -> Any:
    return kind(**{name: _typed(_hints(kind).get(name), value) for name, value in fields.items()})


def _typed(kind: Any, value: Any) -> Any:
    """A value of JSON as its field's type has it: an object as its dataclass, a list as its tuple."""
    if isinstance(value, dict):
        kinds = (kind, *typing.get_args(kind))  # itself, or it or None
        known = [each for each in kinds if isinstance(each, type) and is_dataclass(each)]
        return _row(known[0], value) if known else value
    if isinstance(value, list):
        inner = next((each for each in (kind, *typing.get_args(kind)) if typing.get_origin(each) is tuple), None)
        kinds = typing.get_args(inner)
        return tuple(map(_typed, repeat(kinds[0]) if kinds[-1] is ... else kinds, value)) if kinds else value
    return value


@door
def here(command: str, device: Literal["cuda", "cpu"] | None = None) -> Provenance:
    """The provenance of what this process measures now: on its GPU if there is one, unless `device` is "cpu".

    >>> from compile_lab.recordings import here
    >>> found = here("python bench.py", device="cpu")
    >>> found.kind, found.command, found.cuda
    ('live', 'python bench.py', None)
    """
    import torch

    if device != "cpu" and torch.cuda.is_available():
        name, cuda = torch.cuda.get_device_name(), torch.version.cuda
    else:
        name, cuda = f"CPU, {os.cpu_count()} cores", None
    today = datetime.date.today().isoformat()
    return Provenance(name, str(torch.__version__), triton_version(), cuda, today, command, "live", processor())


def processor() -> str:
    """The processor's name, as Linux or Python has it, and how many of its cores there are."""
    known = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    name = known[1].strip() if known else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not a Linux
        return ""


def triton_version() -> str | None:
    """The version of the triton that is installed, under any of the names it is packaged by; None without one."""
    for package in ("triton", "pytorch-triton", "triton-windows"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


@door
def device_folder(device: str) -> str:
    """The folder of a device: "NVIDIA H200" is kept in "nvidia-h200".

    >>> from compile_lab.recordings import device_folder
    >>> device_folder("NVIDIA H100 80GB HBM3")
    'nvidia-h100-80gb-hbm3'
    """
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


@door
def folder() -> Path:
    """Where the recordings are: `book/recordings` in a checkout, `compile_lab/recorded` in an installed copy.

    >>> from compile_lab.recordings import folder
    >>> (folder() / "nvidia-h200" / "modes.json").is_file()
    True
    """
    package = Path(__file__).resolve().parent
    checkout = package.parent / "book" / "recordings"
    return checkout if (package.parent / "pyproject.toml").is_file() else package / "recorded"


@door
def names(root: Path | None = None) -> dict[str, list[str]]:
    """What exists: the device folders, and the names recorded in each.

    >>> from compile_lab.recordings import names
    >>> "modes" in names()["nvidia-h200"]
    True
    """
    found: dict[str, list[str]] = {}
    for path in sorted((root or folder()).glob("*/*.json")):
        found.setdefault(path.parent.name, []).append(path.stem)
    return found


@door
def load(name: str, device: str | None = None, root: Path | None = None) -> Recording:
    """The recording `name`, from `device` (as torch or its folder names it), checked.

    Without a device: from the book's reference devices, or from the only one that has it.
    Raises RecordingError for a recording that is not there, or not as it must be.

    >>> from compile_lab.recordings import load
    >>> recording = load("modes", "NVIDIA H200")
    >>> recording.provenance.kind, recording.provenance.device
    ('recorded', 'NVIDIA H200')
    """
    root = root or folder()
    if not _NAME.fullmatch(name):
        raise RecordingError(f"{name!r} cannot name a recording: {_NAME_RULE}. {_there(root)}")
    having = [place for place, recorded in names(root).items() if name in recorded]
    if device:
        place = device_folder(device)
    elif known := [place for place in REFERENCES if place in having or not having]:
        place = known[0]
    elif len(having) == 1:
        (place,) = having
    else:
        raise RecordingError(f"{name} is recorded on several devices: choose one of {', '.join(having)} with device=")
    path = root / place / f"{name}.json"
    shown = _shown(path)
    if place not in having:
        raise RecordingError(
            f"{shown} does not exist. {_there(root)} "
            f"On a machine with a GPU, python -m chapters.record {name} makes one."
        )
    return _read(path, shown)


@door
def save(name: str, provenance: Provenance, result: Mapping[str, Any], root: Path | None = None) -> Path:
    """Write a recording, whole or not at all, and return its path.

    Raises RecordingError for what `load` would refuse, and OSError where it cannot be written.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from compile_lab.recordings import here, load, save
    >>> with TemporaryDirectory() as root:
    ...     path = save("speed", here("python bench.py", device="cpu"), {"ms": 1.5}, Path(root))
    ...     print(path.name, load("speed", root=Path(root)).result)
    speed.json {'ms': 1.5}
    """
    if not _NAME.fullmatch(name):
        raise RecordingError(f"{name!r} cannot name a recording: {_NAME_RULE}")
    stored = {field: getattr(provenance, field) for field in _stored_fields()}
    path = (root or folder()) / device_folder(provenance.device) / f"{name}.json"
    try:
        content = {"provenance": stored, "result": result}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordingError(f"{_shown(path)} was not written: the result is not plain JSON ({error})") from None
    _parsed(text, path, _shown(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{name}-", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return path


def _read(path: Path, shown: str) -> Recording:
    try:
        if not path.is_file():
            raise _refusal(path, shown, "not a regular file")
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise _refusal(path, shown, f"{size / 1e6:,.0f} MB, and a recording has at most {LARGEST_FILE / 1e6:.0f}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RecordingError(f"{shown} cannot be read: {reason}") from None
    return _parsed(text, path, shown)


def _parsed(text: str, path: Path, shown: str) -> Recording:
    def refuse(rule: str) -> RecordingError:
        return _refusal(path, shown, rule)

    def no_constant(word: str) -> None:
        raise refuse(f"{word} is not a number that JSON knows")

    def number(digits: str) -> int | float:
        value = float(digits)
        if not math.isfinite(value):
            raise refuse(f"{digits[:20]}{'…' * (len(digits) > 20)} is larger than any number that was measured")
        return value if "." in digits or "e" in digits.lower() else int(digits)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
            raise refuse(f"{twice!r} stands twice in one object")
        return found

    try:
        content = json.loads(
            text, parse_constant=no_constant, parse_int=number, parse_float=number, object_pairs_hook=once
        )
    except json.JSONDecodeError as error:
        raise refuse(f"not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise refuse("its lists and objects are nested too deeply to be read") from None
    if rule := _broken_rule(content):
        raise refuse(rule)
    provenance = replace(Provenance(**content["provenance"]), kind="recorded")
    place = device_folder(provenance.device)
    if place != path.parent.name:
        raise refuse(f"recorded on {provenance.device}, whose folder is {place}, not {path.parent.name}")
    return Recording(path.stem, provenance, content["result"])


def _refusal(path: Path, shown: str, rule: str) -> RecordingError:
    remedy = f"restore the file, or record it again: python -m chapters.record {path.stem}"
    return RecordingError(f"{shown}: {rule}; {remedy}")


def _broken_rule(content: Any) -> str | None:
    """The first rule of a recording that `content` breaks, in words."""
    if not isinstance(content, dict):
        return f"the whole must be an object, and is {_kind(content)}"
    if rule := _fields_rule("the file", content, ["provenance", "result"]):
        return rule
    for part in ("provenance", "result"):
        if not isinstance(content[part], dict):
            return f"{part} must be an object, and is {_kind(content[part])}"
    told = {"cpu": None, **content["provenance"]}
    if rule := _fields_rule("provenance", told, _stored_fields()):
        return rule
    for field, value in content["provenance"].items():
        if not (isinstance(value, str) and value.strip()) and not (
            value is None and field in ("triton", "cuda", "cpu")
        ):
            return f"provenance.{field} must be text, and is {_kind(value)}"
    try:
        datetime.date.fromisoformat(content["provenance"]["date"])
    except ValueError:
        return f"provenance.date must be a day as 2026-11-21, and is {content['provenance']['date']!r}"
    return None if content["result"] else "result is empty"


def _fields_rule(where: str, content: dict[str, Any], expected: list[str]) -> str | None:
    if missing := [field for field in expected if field not in content]:
        return f"{where} lacks {', '.join(missing)}"
    if extra := [field for field in content if field not in expected]:
        return f"{where} has {', '.join(map(repr, extra))}, which no recording has"
    return None


def _stored_fields() -> list[str]:
    # The kind is not stored: what is read from a file is recorded, whatever it was when it was measured.
    return [field.name for field in fields(Provenance) if field.name != "kind"]


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if value == "":
        return "empty"
    words = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words[type(value)]


def _there(root: Path) -> str:
    found = [f"{name} ({place})" for place, recorded in names(root).items() for name in recorded]
    return f"There is: {', '.join(found)}." if found else "There are no recordings yet."


def _shown(path: Path) -> str:
    """The file as a message names it: from the recordings' folder on, never from the root of somebody's disk."""
    prefix = {"recordings": "book/recordings", "recorded": "compile_lab/recorded"}
    parts = path.parts[-3:]
    return "/".join([prefix.get(parts[0], parts[0]), *parts[1:]])
