"""Which kernels does a call run on the GPU, and how long does each of them take? As torch's profiler saw them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .trace import profiled

_MATMUL = re.compile(r"gemm|nvjet|cutlass|cublas|splitk|xmma", re.IGNORECASE)
LONGEST_NAME = 120


def kernel_times(call: Callable[[Any], Any], prepared: Sequence[Any]) -> list[dict[str, Any]]:
    """Kernels of ``call(one)``, averaged over the ``prepared``: ``name``, ``kind``, ``count`` and ``us``, in order.

    ``kind``: matmul (cuBLAS and CUTLASS, by their names), generated (Inductor's Triton), or aten (torch's own).
    ``us`` is the time of all its launches in one call. Empty on a machine without a GPU.

    Raises RuntimeError where the profiler sees no kernel on a GPU.
    """
    if not torch.cuda.is_available():
        return []

    def calls_in_a_row() -> None:
        for one in prepared:
            call(one)

    kernels = profiled(calls_in_a_row).kernels
    if not kernels:
        raise RuntimeError("the profiler saw no kernel on this GPU: without them a loss cannot be explained")
    rows: dict[str, list[float]] = {}
    for kernel in kernels:
        row = rows.setdefault(kernel.name, [0, 0.0])
        row[0] += 1
        row[1] += kernel.duration_us
    calls = len(prepared)
    return [
        {"name": name[:LONGEST_NAME], "kind": kind_of_kernel(name), "count": n / calls, "us": round(us / calls, 3)}
        for name, (n, us) in rows.items()
    ]


def kind_of_kernel(name: str) -> str:
    """matmul, generated or aten, by a kernel's name."""
    if name.startswith("triton_"):
        return "generated"
    return "matmul" if _MATMUL.search(name) else "aten"
