"""The recording ``backward_control``: is it GELU's arithmetic that slows the fused backward, or the norm's reductions?

Four chains of one size. LayerNorm(ReLU) reads, writes and reduces what LayerNorm(GELU) does, and computes no function;
tanh-GELU computes a cheaper one; GELU without a norm computes the same one and reduces nothing along a row.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.capture import compilation
from compile_lab.measure.judge import relative_error

from ...experiment import reason
from ...registry import Progress
from .backward_fusion import copy_gb_per_s
from .fused_chain import TWO_PASSES, Case, measure_case

CONTROLS = ("norm of gelu", "norm of tanh gelu", "norm of relu", "gelu")
SIZES = {"cuda": (16384, 1024, 4096), "cpu": (64, 32, 64)}
TABLES = {"cuda": [(8192, 1024), (8192, 768), (4096, 1024)], "cpu": [(64, 32)]}
WAYS: dict[str, Mapping[str, Any]] = {"one pass": {}, "two passes": TWO_PASSES}
"""Inductor's options: by default, and without the kernel that reduces both ways."""


def two_norms(x: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    """Two layer norms whose scales and shifts are the four rows of one parameter, and a matmul between (adaLN)."""
    scale, shift, then_scale, then_shift = table.chunk(4, dim=1)
    x = F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift
    return F.layer_norm(x @ weight, x.shape[-1:]) * (1 + then_scale) + then_shift


def table_errors(rows: int, d: int, device: str) -> list[dict[str, Any]]:
    """``{"rows", "d", "way", "error"}`` for eager and each of `WAYS`: of the table's gradient against float64.

    The error is relative, in the Euclidean norm; None if it is not a finite number. Raises NotCompiledError (a
    RuntimeError) if compiled code did not run.
    """
    torch.manual_seed(0)
    x, slope = torch.randn(2, 1, rows, d, device=device)
    table = (torch.randn(1, 4, d, device=device) * 0.02).requires_grad_()
    weight = torch.randn(d, d, device=device) / d**0.5
    leaf = table.detach().double().requires_grad_()
    (exact,) = torch.autograd.grad(two_norms(x.double(), leaf, weight.double()), leaf, slope.double())
    found, kept = [], []  # a gradient that is let go lies about in memory, and could be taken for one that was written
    for way, options in [("eager", None), *WAYS.items()]:
        reset_dynamo()
        call = two_norms if options is None else torch.compile(two_norms, dynamic=False, options=dict(options))
        with compilation() as log:
            # x wants its gradient, too: that is the sum along the rows.
            wanted = [x.clone().requires_grad_(), table]
            kept.append(torch.autograd.grad(call(wanted[0], table, weight), wanted, slope)[1])
        if options is not None:
            log.require_compiled()
        error = relative_error(kept[-1], exact)
        told = float(f"{error:.3g}") if error == error and error != float("inf") else None
        found.append({"rows": rows, "d": d, "way": way, "error": told})
    reset_dynamo()
    return found


def record(device: str, progress: Progress = iter, *, chains: Iterable[str] = CONTROLS) -> dict[str, Any]:
    """Each chain in bf16 and fp32, eager and compiled, in an order that is drawn, as plain JSON values.

    A minute and a half on a large GPU. Returns ``{"copy_gb_per_s", "cases": [as of fused_chain.measure_case],
    "tables": [as of table_errors], "left_out"}``, the cases in the order of the chains; ``left_out`` says which one
    failed, and how.
    """
    cases = [Case(chain, *SIZES[device], dtype) for dtype in ("bf16", "fp32") for chain in chains]
    found: dict[Case, dict[str, Any]] = {}
    left_out = []
    for case in progress(random.Random(0).sample(cases, len(cases))):
        try:
            found[case] = measure_case(case, device)
        except Exception as error:  # one chain that does not build is a result, and the others go on
            left_out.append(f"{case.chain}, {case.dtype}: {reason(error)}")
        if device == "cuda":
            torch.cuda.empty_cache()
    tables = []
    for rows, d in TABLES[device]:
        try:
            tables += table_errors(rows, d, device)
        except Exception as error:
            left_out.append(f"table, {rows} × {d}: {reason(error)}")
    measured = [found[case] for case in cases if case in found]
    result = {"copy_gb_per_s": copy_gb_per_s(device), "cases": measured}
    return {**result, "tables": tables, "left_out": left_out}
