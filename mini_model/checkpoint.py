"""Checkpoints that are either whole or not there, and that load without executing code."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

FORMAT = "mini_model checkpoint 1"
WAY_OUT = "It is left as it is: name another file, or move this one away to start afresh"


class CheckpointError(Exception):
    """A checkpoint could not be written, read or continued; the message names the file, the rule and the way out."""


def save(path: Path, settings: dict[str, Any], step: int, model: dict, optimizer: dict) -> None:
    """Puts a checkpoint in place of the one at `path`, atomically: at any moment one of the two is there, whole.

    CheckpointError when it cannot be written (disk full, no such folder, no permission); the old one then stays.
    """
    # Into memory first: a disk that fills up while torch writes its archive ends in an error about archives.
    buffer = io.BytesIO()
    content = {"format": FORMAT, "settings": settings, "step": step, "model": model, "optimizer": optimizer}
    torch.save(content, buffer)
    path = path.resolve()
    # Always the same name, so that what a killed run leaves behind is overwritten by the next save.
    partial = path.with_name(f".{path.name}.partial")
    try:
        try:
            with partial.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{path}: the checkpoint of step {step} could not be written ({error.strerror}); "
            f"{'the previous checkpoint is intact' if path.exists() else 'no checkpoint was there before'}. "
            "Make room or name a folder that exists and can be written to"
        ) from error


def load(path: Path, settings: dict[str, Any], device: str = "cpu") -> dict[str, Any] | None:
    """The checkpoint at `path` with the keys step, model and optimizer; None if nothing is there.

    CheckpointError if the file is damaged, not a checkpoint, or of a run with other settings. Never writes.
    """
    if not path.exists():
        return None
    if not path.is_file():
        raise CheckpointError(f"{path}: not a regular file, so not a checkpoint. {WAY_OUT}")
    try:
        # torch does not compare checksums when it reads its archive, zipfile does.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"checksum of {damaged!r} differs")
        content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"{path}: damaged, or not a checkpoint ({reason}). {WAY_OUT}") from error
    keys = {"format", "settings", "step", "model", "optimizer"}
    if not isinstance(content, dict) or content.keys() != keys or content["format"] != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of mini_model.train ({FORMAT!r}). {WAY_OUT}")
    same_run(path, content["settings"], settings)
    return content


def same_run(path: Path, found: dict[str, Any], settings: dict[str, Any]) -> None:
    """CheckpointError if a checkpoint's settings are not those of this run."""
    differ = [
        f"{name} {found.get(name)!r}, not {value!r}" for name, value in settings.items() if found.get(name) != value
    ]
    if differ:
        raise CheckpointError(
            f"{path}: from a run with other settings ({'; '.join(differ)}), and a run is continued with its own only. "
            f"{WAY_OUT}"
        )
