"""Checkpoints of a model spread over ranks, by torch.distributed.checkpoint: a folder, either whole or not there.

FOLDER/step-00000100/ holds torch's files, each rank's slices in its own; FOLDER/latest.json names that folder, the
run's settings and each file's checksum. It is replaced last and at once: a killed save leaves the previous one.
Several nodes need a folder that all of them see. Unlike a file of `mini_model.checkpoint`, torch's own index of the
slices is a pickle: continue from folders that you wrote. Nothing is unpickled before checksums and settings agree.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from ..checkpoint import WAY_OUT, CheckpointError, same_run

FORMAT = "mini_model sharded checkpoint 1"
LATEST = "latest.json"


def save(folder: Path, settings: dict[str, Any], step: int, state: dict[str, Any]) -> None:
    """Puts the checkpoint of a step in place of the folder's earlier one. Every rank calls it with its own slices.

    state: nested dictionaries of tensors and DTensors. CheckpointError, on every rank, when it cannot be written; the
    earlier one then stays.
    """
    target = folder / f"step-{step:08}"
    _on_first_rank(_make_room, target)
    try:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(target))
    except dcp.CheckpointException as error:
        raise _unwritten(target, _reason(error)) from None
    _on_first_rank(_put_in_place, target, settings, step)


def load(folder: Path, settings: dict[str, Any], state: dict[str, Any]) -> int | None:
    """Fills the tensors of `state` from the folder's checkpoint and returns its step; None if there is none.

    The number of ranks may be another than when it was saved. CheckpointError, on every rank, if the folder is damaged,
    not a checkpoint, or of a run with other settings. Never writes.
    """
    found = _on_first_rank(_latest, folder, settings)
    if found is None:
        return None
    source, step = found
    try:
        dcp.load(state, storage_reader=dcp.FileSystemReader(source))
    except dcp.CheckpointException as error:
        raise CheckpointError(f"{source}: does not hold this model ({_reason(error)}). {WAY_OUT}") from None
    return step


def _on_first_rank(do: Callable[..., Any], *arguments: Any) -> Any:
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
        raise _unwritten(target, error.strerror) from error


def _put_in_place(target: Path, settings: dict[str, Any], step: int) -> None:
    try:
        files = {path.name: _checksum(path) for path in sorted(target.iterdir())}
        content = {"format": FORMAT, "settings": settings, "step": step, "folder": target.name, "files": files}
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
        raise _unwritten(target, error.strerror) from error


def _latest(folder: Path, settings: dict[str, Any]) -> tuple[Path, int] | None:
    """The folder of the newest checkpoint's slices, and its step, when each file is as it was written."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: a file, and many ranks write their checkpoint into a folder. {WAY_OUT}")
    if not (folder / LATEST).exists():
        if all(path.name.startswith(("step-", f".{LATEST}")) for path in folder.iterdir()):
            return None  # empty, or the first save was killed
        raise CheckpointError(f"{folder}: a folder with other things in it, and no checkpoint. {WAY_OUT}")
    try:
        content = json.loads((folder / LATEST).read_text())
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        found, step, source, files = (content[key] for key in ("settings", "step", "folder", "files"))
        same_run(folder, found, settings)
        for name, checksum in files.items():
            if _checksum(folder / source / name) != checksum:
                raise ValueError(f"checksum of {source}/{name} differs")
    except CheckpointError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"{folder}: damaged, or not a checkpoint ({reason}). {WAY_OUT}") from error
    return folder / source, step


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
