"""The code that Inductor wrote on a real GPU, kept: to be read where there is none, and to compare with."""

from collections.abc import Callable
from typing import Any

import torch

from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.records import Kernel
from compile_lab.recordings import Recording

from ...registry import Progress
from ...shared import subjects


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Over the last dimension."""
    return torch.softmax(x, -1)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """The kernels of the softmax of [65536, 4096] in bf16 and fp32, and of a training step of MiniGPT on 8 × 64 tokens.

    Returns ``{subject: [{"name", "direction", "language", "source", "nbytes"}]}``: all launches, in order. The code is
    compiled and run on `device`. Half a minute. Raises RuntimeError if the compiled code did not run.
    """
    rows = 65_536 if device == "cuda" else 64
    cases: dict[str, Callable[[], tuple[Any, ...]]] = {
        "softmax_bf16": lambda: (softmax, torch.randn(rows, 4096, device=device, dtype=torch.bfloat16)),
        "softmax_fp32": lambda: (softmax, torch.randn(rows, 4096, device=device)),
        "minigpt_step": lambda: _minigpt(device),
    }
    return {name: _kernels(*cases[name]()) for name in progress(list(cases))}


def _minigpt(device: str) -> tuple[Any, ...]:
    model = subjects.minigpt(device=device)
    return model, *subjects.tokens(model, batch=8)


def _kernels(fn: Callable[..., Any], *args: Any) -> list[dict[str, Any]]:
    found = generated_code(fn, *args)
    if found.trouble:
        raise RuntimeError(f"only a part was compiled: {'; '.join(found.trouble)}")
    kept = ("name", "direction", "language", "source", "nbytes")
    return [{name: getattr(kernel, name) for name in kept} for kernel in found.kernels]


def kernels(recording: Recording, subject: str) -> list[Kernel]:
    """The launches of one subject as they were recorded; of their origins nothing was kept.

    Raises KeyError, naming those there are, for a subject that was not recorded.
    """
    if subject not in recording.result:
        raise KeyError(f"no code of {subject!r} was recorded; there is {', '.join(recording.result)}")
    return [Kernel(origins=(), **fields) for fields in recording.result[subject]]
