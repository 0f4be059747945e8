"""The chains on a CPU in the modes of numerics that torch 2.15 brought: what do they give back of eager's bits?"""

from __future__ import annotations

from typing import Any

import torch

from compile_lab.measure.timing import one_thread

from ...registry import Progress
from ..rounding.chains import CPU_WAYS, POINTWISE, STRICT, chains_judged

NEEDS = (2, 15)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Chains in bf16 and fp32, by eager, compiled, with casts emulated, and in two modes. Half a minute on two cores.

    Returns ``{"chains"}``, rows of `ChainError`. Raises RuntimeError before torch 2.15, which has no such modes.
    """
    if tuple(map(int, torch.__version__.split(".")[:2])) < NEEDS:
        raise RuntimeError(f"torch {torch.__version__} has no modes of numerics: record this with 2.15 or newer")
    ways = (*CPU_WAYS, POINTWISE, STRICT)
    with one_thread():
        rows = [row for precision in progress(("bf16", "fp32")) for row in chains_judged(precision, device, ways)]
    return {"chains": [row.to_json() for row in rows]}
