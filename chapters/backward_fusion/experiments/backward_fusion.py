"""The recording ``backward_fusion``: the backward of LayerNorm(GELU(xW + b)) at many shapes."""

from collections.abc import Iterable
from typing import Any

import torch

from compile_lab.measure.timing import summary_us, sustained_ms

from ...registry import Progress
from .fused_chain import Case, measure_case

COPIED_NBYTES = {"cuda": 1 << 30, "cpu": 1 << 24}


def _cases(chain: str, shapes: Iterable[tuple[int, int, int]], dtypes: Iterable[str]) -> list[Case]:
    return [Case(chain, *shape, dtype) for dtype in dtypes for shape in shapes]


_SHAPES = [(1024, 1024, 4096), (4096, 1024, 4096), (16384, 1024, 4096), (16384, 4096, 4096)]
_SHAPES += [(65536, 1024, 1024), (65536, 256, 256)]
CASES: dict[str, list[Case]] = {
    "cuda": _cases("norm of gelu", _SHAPES, ["bf16", "fp32"])
    + _cases("residual", [(1024, 4096, 1024), (16384, 4096, 1024)], ["bf16"]),
    "cpu": _cases("norm of gelu", [(64, 32, 64)], ["bf16", "fp32"]) + _cases("residual", [(64, 64, 32)], ["fp32"]),
}


def record(device: str, progress: Progress = iter, *, cases: Iterable[Case] | None = None) -> dict[str, Any]:
    """The cases, eager and compiled, as plain JSON values; all of them if not told.

    Two and a half minutes on an H200. Returns ``{"copy_gb_per_s", "cases": [as of measure_case]}``.
    Raises NotCompiledError (a RuntimeError) if compiled code did not run in both directions.
    """
    chains = []
    for case in progress(CASES[device] if cases is None else list(cases)):
        chains.append(measure_case(case, device))
        if device == "cuda":
            torch.cuda.empty_cache()
    return {"copy_gb_per_s": copy_gb_per_s(device), "cases": chains}


def copy_gb_per_s(device: str) -> float:
    """Bytes read and written a second, by a copy that is too large for any cache."""
    source = torch.ones(COPIED_NBYTES[device] // 4, device=device)
    target = torch.empty_like(source)
    taken = summary_us([1e3 * ms for ms in sustained_ms(lambda: target.copy_(source), source.device)])
    return round(2 * COPIED_NBYTES[device] / taken["median_us"] / 1e3, 1)
