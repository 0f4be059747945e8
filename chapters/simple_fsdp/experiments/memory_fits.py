"""A batch that runs out of a GPU's memory: which ways of training fit it, and do they train the same?

Nothing is limited here: the GPU's own memory is the limit. The judge is the same training by smaller batches whose
gradients are added up, which fits whatever the ways do.
"""

import gc
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.checkpointing.strategies import EVERY_LAYER, NONE, Strategy, budgets
from compile_lab.measure.allocator import peak
from compile_lab.measure.timing import wait

from ...registry import Progress
from ...shared import subjects

LAYERS = 24
SIZES = {"cuda": {"dim": 1024, "heads": 16, "context": 1024}, "cpu": {"dim": 32, "heads": 2, "context": 16}}
"""Those of the recording ``checkpointing``."""
PART, PARTS = {"cuda": 16, "cpu": 1}, {"cuda": 11, "cpu": 4}
"""Sequences of a small part of the batch, as many as the batch of ``checkpointing``; how many parts fill a step."""
SIZED_FOR = 150e9
"""Bytes of the GPU that so many parts are made for; a smaller GPU gets fewer."""
WAYS = (NONE, *budgets((1.0, 0.5)), EVERY_LAYER)
STEPS, LEARNING_RATE = 8, 3e-4
BUDGET_S = 260.0


def record(device: str, progress: Progress = iter, *, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """A few steps of AdamW by each way on a batch that is too large for some, as plain JSON values; four minutes.

    ``{"layers", "dim", "heads", "context", "batch", "part", "half", "steps", "lr", "memory_nbytes", "ways": [{"way",
    "losses", "step_ms", "first_s", "peak_nbytes", "stopped"}]}``. ``memory_nbytes`` is the GPU's, None on a CPU.
    ``peak_nbytes`` counts everything that the allocator gave out, weights and optimizer too. A way that does not fit
    has what torch said in ``stopped`` and as many losses as it came to; the way "in parts" is the judge. "in halves"
    has two parts, of ``half`` sequences.
    """
    ends = time.monotonic() + budget_s
    total = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else None
    part = PART[device]
    batch = part * (PARTS[device] if total is None else min(PARTS[device], int(PARTS[device] * total / SIZED_FOR)))
    ways = {
        "in parts": _in_parts(part),
        **{_name(way): _whole(way) for way in WAYS},
        "in parts, compiled": _in_parts(part, compiled=True),
        "in halves, compiled": _in_parts(batch // 2, compiled=True),
    }
    rows = []
    for name, way in progress(list(ways.items())):
        if time.monotonic() > ends:
            rows.append({"way": name, **_nothing(), "stopped": "not begun: the time given was over"})
        else:
            rows.append({"way": name, **_trained(device, way, batch)})
    sizes = {"layers": LAYERS, **SIZES[device], "batch": batch, "part": part, "half": batch // 2}
    return {**sizes, "steps": STEPS, "lr": LEARNING_RATE, "memory_nbytes": total, "ways": rows}


Backward = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Forward and backward of a batch: the loss, and gradients in the parameters."""


def _name(way: Strategy) -> str:
    return "eager" if way == NONE else way.name


def _whole(way: Strategy) -> Callable[[nn.Module], Backward]:
    """The whole batch at once, by a strategy."""

    def made(model: nn.Module) -> Backward:
        applied = way.applied(model)
        run = torch.compile(applied, fullgraph=True, dynamic=False) if way.compiled else applied

        def backward(_model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
            with way.context(), torch.autocast(tokens.device.type, torch.bfloat16):
                loss = run(tokens, targets)
            loss.backward()
            return loss.detach()

        return backward

    return made


def _in_parts(part: int, compiled: bool = False) -> Callable[[nn.Module], Backward]:
    """Gradients of parts of the batch, added up: the same mean."""

    def made(model: nn.Module) -> Backward:
        run = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model

        def backward(_model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
            share = part / len(tokens)
            total = torch.zeros((), device=tokens.device)
            for some, wanted in zip(tokens.split(part), targets.split(part), strict=True):
                with torch.autocast(tokens.device.type, torch.bfloat16):
                    loss = run(some, wanted) * share
                loss.backward()
                total += loss.detach()
            return total

        return backward

    return made


def _trained(device: str, way: Callable[[nn.Module], Backward], batch: int) -> dict[str, Any]:
    reset_dynamo()
    found = _nothing()
    try:
        with peak(device) as memory:
            _steps(device, way, batch, found)
        found["peak_nbytes"] = memory.peak_nbytes
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # they hold the activations
        found["stopped"] = str(error).splitlines()[0].partition(" Process ")[0][:200]
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return found


def _nothing() -> dict[str, Any]:
    return {"losses": [], "step_ms": [], "first_s": None, "peak_nbytes": None, "stopped": ""}


def _steps(device: str, way: Callable[[nn.Module], Backward], batch: int, found: dict[str, Any]) -> None:
    """Fill in losses and milliseconds, step by step, as far as it comes."""
    model = subjects.deep_gpt(LAYERS, **SIZES[device], device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    backward = way(model)
    for step in range(STEPS):
        tokens, targets = subjects.sentences(model, batch, step)
        wait(device)
        start = time.perf_counter()
        loss = backward(model, tokens, targets)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait(device)
        seconds = time.perf_counter() - start
        found["losses"].append(loss.item())
        if step:
            found["step_ms"].append(round(1e3 * seconds, 3))
        else:
            found["first_s"] = round(seconds, 3)
