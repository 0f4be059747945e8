"""Is the virtual chip's code the real chip's? A GPU's kernels against those of its virtual twin, source for source.

What is left out of the comparison: ``backend_hash``, a hash over the installed Triton's files, which names the machine
and not the kernel. All else counts, the device's properties included.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from compile_lab.inductor.generated import GeneratedCode, generated_code
from compile_lab.inductor.records import EXTERN, Kernel, comparable
from compile_lab.recordings import RecordingError
from compile_lab.virtual_gpu.chips import CHIPS

from ...registry import Progress
from ...shared import subjects

PRECISIONS = {"fp32": None, "bf16 autocast": torch.bfloat16}
Calls = Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]
"""By name: a function or module, and its arguments."""

_DIFF_LINES = 6


def record(device: str, progress: Progress = iter, *, calls: Calls | None = None) -> dict[str, Any]:
    """Compile MiniGPT and a block of GPT-2, or other `calls`, for the GPU `device` and for its virtual twin.

    Returns ``{"chip", "kernels", "identical", "cases": [{"subject", "precision", "direction", "kernels", "identical",
    "calls", "same_calls", "differing": [{"kernel", "diff"}]}]}``: ``calls`` counts the library calls (matmuls,
    attention), which ``same_calls`` says are the same in the same order. Raises RecordingError without a GPU that has
    a virtual twin.
    """
    chip = twin(device)  # refuses before anything is built
    calls = calls or _calls(device)
    cases = []
    for name, precision in progress([(name, precision) for name in calls for precision in PRECISIONS]):
        function, args = calls[name]
        asked = _forward, function, PRECISIONS[precision], *args
        real, virtual = generated_code(*asked), generated_code(*asked, chip=chip)
        cases += [{"subject": name, "precision": precision, **case} for case in compared(real, virtual)]
    totals = {key: sum(case[key] for case in cases) for key in ("kernels", "identical")}
    return {"chip": chip, **totals, "cases": cases}


def _calls(device: str) -> Calls:
    model, block = subjects.minigpt(device=device), subjects.gpt2_block(device)
    hidden = torch.randn(8, 256, 768, device=device)
    return {"MiniGPT": (model, subjects.tokens(model, 8)), "GPT-2 block": (block, (hidden,))}


def twin(device: str) -> str:
    """The virtual chip that is this machine's GPU. RecordingError on a CPU, and for a GPU that has none."""
    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else None
    for chip in CHIPS.values():
        if name and re.search(rf"\b{chip.name}\b", name):
            return chip.name
    raise RecordingError(
        f"fidelity compares a real GPU with its virtual twin, one of {', '.join(CHIPS)}; here is {name or 'no GPU'}"
    )


def _forward(function: Callable[..., Any], autocast: torch.dtype | None, *args: Any) -> Any:
    with torch.autocast("cuda", autocast, enabled=autocast is not None):
        return function(*args)


def compared(real: GeneratedCode, virtual: GeneratedCode) -> list[dict[str, Any]]:
    """One entry for each direction: how many kernels of the real chip have an identical one of the virtual chip."""
    directions = list(dict.fromkeys(kernel.direction for kernel in (*real.kernels, *virtual.kernels)))
    return [_compared(_of(real, direction), _of(virtual, direction), direction) for direction in directions]


def _of(code: GeneratedCode, direction: str) -> list[Kernel]:
    return [kernel for kernel in code.kernels if kernel.direction == direction]


def _compared(real: list[Kernel], virtual: list[Kernel], direction: str) -> dict[str, Any]:
    ours, theirs = _sources(virtual), _sources(real)
    names = list(dict.fromkeys([*theirs, *ours]))
    differing = [name for name in names if theirs.get(name) != ours.get(name)]
    calls = [kernel.name for kernel in real if kernel.language == EXTERN]
    return {
        "direction": direction,
        "kernels": len(names),
        "identical": len(names) - len(differing),
        "calls": len(calls),
        "same_calls": calls == [kernel.name for kernel in virtual if kernel.language == EXTERN],
        "differing": [{"kernel": name, "diff": _diff(theirs.get(name), ours.get(name))} for name in differing],
    }


def _sources(kernels: list[Kernel]) -> dict[str, str]:
    return {one.name: comparable(one.source) for one in kernels if one.language != EXTERN}


def _diff(real: str | None, virtual: str | None) -> str:
    if real is None or virtual is None:
        return "only on the virtual chip" if real is None else "only on the real chip"
    lines = difflib.unified_diff(real.splitlines(), virtual.splitlines(), "real", "virtual", lineterm="", n=0)
    return "\n".join(line[:200] for line in list(lines)[:_DIFF_LINES])
