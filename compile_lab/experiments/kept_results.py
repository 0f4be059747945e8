"""The recording ``kept_results``: is a result still right when the compiled code that made it has been called again?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .registry import Progress

WIDTH = 1024
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda result: result,
    "a clone": torch.clone,
    "through DLPack": torch.from_dlpack,
}
"""How a result is kept: the object itself, a copy, and its memory in the hands of a library that torch cannot warn."""


def doubled(x: Tensor) -> Tensor:
    return torch.relu(x * 2)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Each mode's result, kept in each way over the next call, as plain JSON values. Half a minute on a large GPU.

    Returns ``{"rows": [{"mode", "kept", "one_place", "reads"}]}``: whether both calls answered at one address, and
    what was read then: "its own values", "the next call's", or the error's first line.
    """
    cases = [(mode, kept) for mode in ("default", "reduce-overhead") for kept in WAYS]
    return {"rows": [_row(device, mode, kept) for mode, kept in progress(cases)]}


def _row(device: str, mode: str, kept: str) -> dict[str, Any]:
    torch.compiler.reset()
    compiled = torch.compile(doubled, mode=mode)
    inputs = [torch.full((WIDTH,), float(value), device=device) for value in range(1, 6)]
    with torch.no_grad():
        for x in inputs[:-2]:  # runs, is recorded, is replayed
            compiled(x)
        first = compiled(inputs[-2])
        place, held = first.data_ptr(), WAYS[kept](first)
        second = compiled(inputs[-1])
        one_place = second.data_ptr() == place
        try:
            reads = _whose(held, *(doubled(x) for x in inputs[-2:]))
        except RuntimeError as error:
            reads = str(error).strip().partition("\n")[0]
    return {"mode": mode, "kept": kept, "one_place": one_place, "reads": reads}


def _whose(held: Tensor, own: Tensor, following: Tensor) -> str:
    if torch.equal(held, own):
        return "its own values"
    return "the next call's" if torch.equal(held, following) else "neither call's values"
