"""Checkpoints of a model spread over ranks, by torch.distributed.checkpoint: a folder, either whole or not there.

FOLDER/step-00000100/ holds torch's files, each rank's slices in its own; FOLDER/latest.json names that folder, the
run's settings and each file's checksum. It is replaced last and at once: a killed save leaves the previous one.
Several nodes need a folder that all of them see. torch's own index of the slices is a pickle; it is read by a list of
the classes that it needs, so that a folder made to fit executes nothing.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from .. import inputs, lock
from ..checkpoint import WAY_OUT, CheckpointError, check_step, same_run

FORMAT = "mini_model sharded checkpoint 1"
LATEST = "latest.json"
LOCK = ".lock"
INDEX = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "pathlib": {"PosixPath", "WindowsPath"},
    "pathlib._local": {"PosixPath", "WindowsPath"},  # Python 3.13
}
"""What torch's index of slices is made of, besides dtypes. BytesStorageMetadata is left out on purpose: torch unpickles
what it points to, whatever that is, and the state of a run is tensors only."""


class Found(NamedTuple):
    """A checkpoint: its number of steps, and CPU threads of the rank that saved it (None if nobody noted it)."""

    step: int
    threads: int | None


def save(folder: Path, settings: dict[str, Any], step: int, state: dict[str, Any]) -> None:
    """Puts the checkpoint of a step in place of the folder's earlier one. Every rank calls it with its own slices.

    state: nested dictionaries of tensors and DTensors. CheckpointError, on every rank, when it cannot be written; the
    earlier one then stays.
    """
    target = inputs.path("folder", folder) / f"step-{inputs.whole('step', step, 0):08}"
    on_first_rank(_make_room, target)
    try:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(target))
    except dcp.CheckpointException as error:
        raise _unwritten(target, _reason(error)) from None
    on_first_rank(_put_in_place, target, settings, step)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """While this is open, no other run has the folder. Every rank opens it; CheckpointError on every rank as in `lock`.

    It makes the folder if it can, since the lock stands in it.
    """
    folder = inputs.path("folder", folder)
    with ExitStack() as stack:
        on_first_rank(_lock, folder, stack)
        yield


def _lock(folder: Path, stack: ExitStack) -> None:
    with suppress(OSError):  # loading says what else is there, and saving why it cannot be made
        folder.mkdir(exist_ok=True)
    stack.enter_context(lock.held(folder / LOCK, checkpoint=folder))


def load(folder: Path, settings: dict[str, Any], state: dict[str, Any]) -> Found | None:
    """Fills the tensors of `state` from the folder's checkpoint and returns its step; None if there is none.

    The number of ranks may be another than when it was saved. CheckpointError, on every rank, if the folder is damaged,
    not a checkpoint, or of a run with other settings. Never writes.
    """
    latest = on_first_rank(_latest, inputs.path("folder", folder), settings)
    if latest is None:
        return None
    source, found = latest
    try:
        dcp.load(state, storage_reader=_Reader(source))
    except dcp.CheckpointException as error:
        raise CheckpointError(f"{source}: does not hold this model ({_reason(error)}). {WAY_OUT}") from None
    broken: list[list[str]] = [[]] * dist.get_world_size()
    dist.all_gather_object(broken, [*_not_finite(state)])
    if names := sorted(set().union(*broken)):
        raise CheckpointError(f"{source}: its tensors are not all finite: {names[0]!r} holds NaN or inf. {WAY_OUT}")
    return found


def _not_finite(state: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The tensors of which this rank's slice holds NaN or inf, by their names in the checkpoint."""
    for name, value in state.items():
        if isinstance(value, dict):
            yield from _not_finite(value, f"{prefix}{name}.")
        elif not torch.isfinite(getattr(value, "to_local", lambda value=value: value)()).all():
            yield f"{prefix}{name}"


class _Reader(dcp.FileSystemReader):
    """Torch's reader, with an index that can only be what `INDEX` lists."""

    def read_metadata(self) -> dcp.Metadata:
        return _index(Path(self.path))


def _index(source: Path) -> dcp.Metadata:
    with (source / ".metadata").open("rb") as file:
        found = _Index(file).load()
    if not isinstance(found, dcp.Metadata):
        raise pickle.UnpicklingError(f"its index of slices is a {type(found).__name__}")
    return found


class _Index(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The class, if it is one of an index's; else UnpicklingError, with nothing imported or called."""
        if name in INDEX.get(module, ()) or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"its index of slices asks for {module}.{name}, which is no part of one")


def on_first_rank(do: Callable[..., Any], *arguments: Any) -> Any:
    """What rank 0 got by doing it, on every rank; its CheckpointError is raised on every rank."""
    outcome: list[Any] = [None]
    if dist.get_rank() == 0:
        try:
            outcome = [do(*arguments)]
        except CheckpointError as error:
            outcome = [error]
    dist.broadcast_object_list(outcome)
    if isinstance(outcome[0], CheckpointError):
        raise outcome[0]
    return outcome[0]


def _make_room(target: Path) -> None:
    """The folder exists, and what a killed save left in it does not."""
    try:
        target.parent.mkdir(exist_ok=True)
        if target.exists():
            shutil.rmtree(target)
    except OSError as error:
        raise _unwritten(target, error.strerror or str(error)) from error


def _put_in_place(target: Path, settings: dict[str, Any], step: int) -> None:
    try:
        files = {path.name: _checksum(path) for path in sorted(target.iterdir())}
        content = {"format": FORMAT, "settings": settings, "step": step, "folder": target.name, "files": files}
        content["threads"] = torch.get_num_threads()
        partial = target.parent / f".{LATEST}.partial"
        with partial.open("w") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target.parent / LATEST)
        for earlier in target.parent.glob("step-*"):
            if earlier != target:
                shutil.rmtree(earlier)
    except OSError as error:
        raise _unwritten(target, error.strerror or str(error)) from error


def _latest(folder: Path, settings: dict[str, Any]) -> tuple[Path, Found] | None:
    """The folder of the newest checkpoint's slices, and what it is, when each file is as it was written."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: a file, and many ranks write their checkpoint into a folder. {WAY_OUT}")
    if not (folder / LATEST).exists():
        if all(path.name.startswith(("step-", f".{LATEST}", LOCK)) for path in folder.iterdir()):
            return None  # empty, or the first save was killed
        raise CheckpointError(f"{folder}: a folder with other things in it, and no checkpoint. {WAY_OUT}")
    try:
        content = json.loads((folder / LATEST).read_text())
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        found, step, source, files = (content[key] for key in ("settings", "step", "folder", "files"))
        same_run(folder, found, settings)
        check_step(folder, step, settings)
        if source != f"step-{step:08}" or ".metadata" not in files:
            raise ValueError(f"it names {source!r} and {len(files)} files, which are no slices of step {step}")
        for name, checksum in files.items():
            if _checksum(folder / source / name) != checksum:
                raise ValueError(f"checksum of {source}/{name} differs")
        _index(folder / source)
    except CheckpointError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"{folder}: damaged, or not a checkpoint ({reason}). {WAY_OUT}") from error
    return folder / source, Found(step, content.get("threads"))


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 24):
            value = zlib.crc32(chunk, value)
    return value


def _reason(error: dcp.CheckpointException) -> str:
    first, _ = next(iter(error.failures.values()))
    return getattr(first, "strerror", None) or str(first).strip().partition("\n")[0] or type(first).__name__


def _unwritten(target: Path, reason: str) -> CheckpointError:
    kept = (
        "the previous checkpoint is intact" if (target.parent / LATEST).exists() else "no checkpoint was there before"
    )
    return CheckpointError(
        f"{target}: the checkpoint could not be written ({reason}); {kept}. "
        "Make room or name a folder that can be made and written to"
    )
