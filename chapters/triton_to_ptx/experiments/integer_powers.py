"""Is an integer power with a symbolic exponent exact in generated code? ``3 ** n``, for an n that is no constant.

A fixed exponent becomes multiplications of integers. A symbolic one becomes ``libdevice.pow`` of float64, turned into
int64 after: 53 bits for a result of 63.
"""

from collections.abc import Callable
from typing import Any

import torch

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.capture import compilation
from compile_lab.doors import check_whole
from compile_lab.inductor.lowering import collecting

from ...registry import Progress

# Each base written out: a variable would be a symbol like the exponent, and of two symbols Inductor (torch 2.11 and
# 2.13) writes no code at all: its recursion does not end.
POWER_OF: dict[int, Callable[[torch.Tensor, int], torch.Tensor]] = {
    2: lambda x, n: x + 2**n,
    3: lambda x, n: x + 3**n,
    10: lambda x, n: x + 10**n,
}
"""By base: a function that adds ``base ** n`` to an int64 tensor."""


def exponents(base: int) -> range:
    """Exponents whose power fits into an int64; from 2 on, since torch.compile makes constants of 0 and 1.

    Raises ValueError for a base below 2: all its powers fit.
    """
    check_whole("base", base, 2)
    return range(2, next(n for n in range(64) if base**n >= 2**63))


def written(base: int) -> str:
    """The kernels that Inductor writes for ``x + base ** n`` with a symbolic n, on the GPU that is, or pretended."""
    reset_dynamo()
    with collecting() as graphs:
        torch.compile(POWER_OF[base], dynamic=True)(torch.zeros(8, dtype=torch.int64, device="cuda"), 5)
    return "\n".join(kernel.body for graph in graphs for kernel in graph.kernels)


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """``base ** n`` as the generated kernel computes it, for every power that fits into an int64.

    Returns ``{"rows": [{"base", "exponent", "computed"}], "left_out"}``. Under a minute on a GPU; on a CPU, for which
    Inductor (torch 2.13) cannot generate this expression, there are no rows and `left_out` says so.
    Raises RuntimeError if the compiled code did not run.
    """
    if device != "cuda":
        return {"rows": [], "left_out": ["a symbolic exponent: Inductor has no C++ for it, and there is no GPU here"]}
    rows = []
    for base in progress(list(POWER_OF)):
        reset_dynamo()
        fn = torch.compile(POWER_OF[base], dynamic=True)
        with compilation() as log:
            for exponent in exponents(base):
                computed = fn(torch.zeros(8, dtype=torch.int64, device=device), exponent)
                rows.append({"base": base, "exponent": exponent, "computed": computed[0].item()})
        log.require_compiled()
    reset_dynamo()
    return {"rows": rows, "left_out": []}
