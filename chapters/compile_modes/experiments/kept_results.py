"""The recording ``kept_results``: is a result still right when the compiled code that made it has been called again?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...registry import Progress

WIDTH = 1024
STEPS = 5
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda result: result,
    "a clone": torch.clone,
    "through DLPack": torch.from_dlpack,
}
"""How a result is kept: the object itself, a copy, and its memory in the hands of a library that torch cannot warn."""
MARKED = {"never": (1, False), "before each call": (1, True), "before every second call": (2, True)}
"""When ``cudagraph_mark_step_begin`` is called: how many calls a step has, and whether its beginning is marked."""


def doubled(x: Tensor) -> Tensor:
    return torch.relu(x * 2)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Each mode's result, kept over the next call, as plain JSON values. Half a minute on a large GPU.

    Returns ``{"rows": [{"mode", "kept", "one_place", "reads"}], "calls": [{"marked", "call", "reads"}]}``. The first
    are kept in each way, from the fourth call to the fifth: whether both answered at one address, and what was read:
    "its own values", "the next call's", or the error's first sentence. The second are of ``reduce-overhead``, kept as
    they are: what was read of call 1, 2, … when the next one had been made, by when a step was marked.
    """
    cases = [(mode, kept) for mode in ("default", "reduce-overhead") for kept in WAYS]
    steps = progress([*cases, *MARKED])
    rows, calls = [], []
    for case in steps:
        if isinstance(case, str):
            calls += _calls(device, case)
        else:
            rows.append(_row(device, *case))
    return {"rows": rows, "calls": calls}


def _row(device: str, mode: str, kept: str) -> dict[str, Any]:
    torch.compiler.reset()
    compiled = torch.compile(doubled, mode=mode)
    inputs = [_input(device, number) for number in range(1, 6)]
    with torch.no_grad():
        for x in inputs[:-2]:  # runs, is recorded, is replayed
            compiled(x)
        first = compiled(inputs[-2])
        place, held = first.data_ptr(), WAYS[kept](first)
        second = compiled(inputs[-1])
        one_place = second.data_ptr() == place
        reads = _reads(held, *inputs[-2:])
    return {"mode": mode, "kept": kept, "one_place": one_place, "reads": reads}


def _calls(device: str, marked: str) -> list[dict[str, Any]]:
    """What is read of each call's result after the next call; of two calls a step, of the first after the second."""
    a_step, mark = MARKED[marked]
    torch.compiler.reset()
    compiled = torch.compile(doubled, mode="reduce-overhead")
    rows: list[dict[str, Any]] = []
    held: tuple[int, Tensor] | None = None
    with torch.no_grad():
        for number in range(1, a_step * STEPS + 1):
            if mark and (number - 1) % a_step == 0:
                torch.compiler.cudagraph_mark_step_begin()
            result = compiled(_input(device, number))
            if held and (a_step == 1 or number % a_step == 0):
                reads = _reads(held[1], *(_input(device, each) for each in (held[0], number)))
                rows.append({"marked": marked, "call": held[0], "reads": reads})
            held = number, result
    return rows


def _input(device: str, number: int) -> Tensor:
    return torch.full((WIDTH,), float(number), device=device)


def _reads(held: Tensor, own: Tensor, following: Tensor) -> str:
    try:
        return _whose(held, doubled(own), doubled(following))
    except RuntimeError as error:
        return str(error).strip().partition("\n")[0].partition(". ")[0]


def _whose(held: Tensor, own: Tensor, following: Tensor) -> str:
    if torch.equal(held, own):
        return "its own values"
    return "the next call's" if torch.equal(held, following) else "neither call's values"
