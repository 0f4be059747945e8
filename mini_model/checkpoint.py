"""Checkpoints that are either whole or not there, and that load without executing code."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import inputs

FORMAT = "mini_model checkpoint 1"
WAY_OUT = "It is left as it is: name another file, or move this one away to start afresh"


class CheckpointError(Exception):
    """A checkpoint could not be written, read or continued; the message names the file, the rule and the way out."""


def save(path: Path, settings: dict[str, Any], step: int, model: dict, optimizer: dict) -> None:
    """Puts a checkpoint in place of the one at `path`, atomically: at any moment one of the two is there, whole.

    CheckpointError when it cannot be written (disk full, no such folder, no permission); the old one then stays.
    """
    path = inputs.path("path", path)
    inputs.whole("step", step, 0)
    for name, value in {"settings": settings, "model": model, "optimizer": optimizer}.items():
        inputs.instance(name, value, dict)
    for name, value in settings.items():
        inputs.instance(f"settings[{name!r}]", value, str, int, float)
    for name, value in model.items():
        inputs.instance(f"model[{name!r}]", value, Tensor)
    content = {"format": FORMAT, "settings": settings, "step": step, "model": model, "optimizer": optimizer}
    # Into memory first: a disk that fills up while torch writes its archive ends in an error about archives.
    buffer = io.BytesIO()
    torch.save(content | {"threads": torch.get_num_threads()}, buffer)
    try:
        path = path.resolve()
        # Always the same name, so that what a killed run leaves behind is overwritten by the next save.
        partial = path.with_name(f".{path.name}.partial")
        try:
            with partial.open("wb") as file:
                file.write(buffer.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # before Python 3.13, a link that leads back to itself is the latter
        reason = getattr(error, "strerror", None) or str(error).partition(" from ")[0]
        raise CheckpointError(
            f"{path}: the checkpoint of step {step} could not be written ({reason}); "
            f"{'the previous checkpoint is intact' if inputs.is_there(path) else 'no checkpoint was there before'}. "
            "Make room or name a folder that exists and can be written to"
        ) from error


def load(path: Path, settings: dict[str, Any], device: str = "cpu") -> dict[str, Any] | None:
    """The checkpoint at `path` with the keys step, threads, model and optimizer; None if nothing is there.

    CheckpointError if the file is damaged, not a checkpoint, or of a run with other settings. Never writes.
    """
    path, device = inputs.path("path", path), inputs.device(device)
    inputs.instance("settings", settings, dict)
    if not inputs.is_there(path):
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
    except pickle.UnpicklingError as error:  # whose text advises to load it without this precaution
        raise CheckpointError(
            f"{path}: not a checkpoint of mini_model.train, which holds tensors, numbers and texts only; "
            f"nothing in it was executed. {WAY_OUT}"
        ) from error
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"{path}: damaged, or not a checkpoint ({reason}). {WAY_OUT}") from error
    keys = {"format", "settings", "step", "model", "optimizer"}
    if not isinstance(content, dict) or not keys <= content.keys() or content["format"] != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of mini_model.train ({FORMAT!r}). {WAY_OUT}")
    same_run(path, content["settings"], settings)
    check_step(path, content["step"], settings)
    return content


def way_on(path: Path | None) -> str:
    """What to say of the checkpoint to whom stops a run; None: there is none."""
    return f"the same command continues from {path}" if path else "nothing was saved"


def same_run(path: Path, found: Any, settings: dict[str, Any]) -> None:
    """CheckpointError if a checkpoint's settings are not those of this run."""
    found = found if isinstance(found, Mapping) else {}
    differ = [
        f"{name} {found.get(name)!r}, not {value!r}" for name, value in settings.items() if found.get(name) != value
    ]
    if differ:
        raise CheckpointError(
            f"{path}: from a run with other settings ({'; '.join(differ)}), and a run is continued with its own only. "
            f"{WAY_OUT}"
        )


def check_step(path: Path, step: Any, settings: dict[str, Any]) -> None:
    """CheckpointError if that is no number of steps that a run with these settings has done."""
    try:
        inputs.whole("its step", step, 0, settings.get("steps", inputs.LARGEST))
    except ValueError as error:
        raise CheckpointError(f"{path}: its content is no run's ({error}). {WAY_OUT}") from None


def restore(
    path: Path,
    settings: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: str,
    tell: Callable[[str], None],
) -> int:
    """The step to go on with: that of the checkpoint, or 0, and then a first checkpoint is written.

    Writing it at once finds a full disk or a wrong folder before the training, not after it. tell: is handed what the
    user should know of a continued run. CheckpointError as in `load`, `fill` and `save`.
    """
    found = load(path, settings, device)
    if found is None:
        save(path, settings, 0, model.state_dict(), optimizer.state_dict())
        return 0
    fill(path, found, model, optimizer)
    tell(f"continuing from {path} at step {found['step']} of {settings['steps']}")
    note = other_threads(found.get("threads"), device)
    if note and found["step"] < settings["steps"]:
        tell(f"note: {note}")
    return found["step"]


def fill(path: Path, found: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Puts a loaded checkpoint's weights into the model, and its moments into the model's AdamW.

    CheckpointError if one is missing, one too many, or of another shape; then nothing was changed.
    """
    shapes = {name: _kind(tensor) for name, tensor in model.state_dict().items()}
    weights, state = found["model"], found["optimizer"].get("state") if isinstance(found["optimizer"], dict) else None
    held_by = [parameter for group in optimizer.param_groups for parameter in group["params"]]  # in the state's order
    # AdamW has no moments before its first step.
    moments = {
        (number, name): _kind(torch.empty(()) if name == "step" else parameter)
        for number, parameter in enumerate(held_by if found["step"] else ())
        for name in ("step", "exp_avg", "exp_avg_sq")
    }
    held = {(number, name): tensor for number, each in _items(state) for name, tensor in _items(each)}
    for what, there, expected in (("weights", dict(_items(weights)), shapes), ("moments", held, moments)):
        kinds = {name: _kind(tensor) for name, tensor in there.items()}
        if wrong := [name for name in dict.fromkeys((*expected, *kinds)) if expected.get(name) != kinds.get(name)]:
            raise CheckpointError(
                f"{path}: its {what} are not those of this model and its AdamW after step {found['step']}: "
                f"{wrong[0]!r} is {kinds.get(wrong[0], 'missing')}, and must be {expected.get(wrong[0], 'left out')}. "
                f"{WAY_OUT}"
            )
        if broken := [name for name, tensor in there.items() if not torch.isfinite(tensor).all()]:
            raise CheckpointError(f"{path}: its {what} are not all finite: {broken[0]!r} holds NaN or inf. {WAY_OUT}")
    if any(held[number, "step"] != found["step"] for number, name in held if name == "step"):
        raise CheckpointError(f"{path}: its moments are of another step than its weights. {WAY_OUT}")
    model.load_state_dict(weights)
    # Everything but the moments is the program's: a file's rates and decays would go unnoticed.
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _kind(value: Any) -> str:
    """A tensor's type and shape, in words."""
    if not isinstance(value, Tensor):
        return f"no tensor but a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def other_threads(found: Any, device: str) -> str:
    """What to say when a run is continued on a CPU with another number of threads; "" if there is nothing to say."""
    own = torch.get_num_threads()
    if not isinstance(found, int) or found == own or not device.startswith("cpu"):
        return ""
    return (
        f"its steps so far had {found} CPU thread{'s' * (found > 1)}, these have {own}: sums are added in another "
        "order, so from here the losses differ in their last digits from those of one uninterrupted run. "
        f"OMP_NUM_THREADS={found} keeps them the same"
    )
