"""The recording of the precisions: rates, errors, casts, steps, gradients that vanish, and short trainings.

Everything is measured in one run on one device. Eager and compiled steps are those of GPT-2 124M (on a CPU, where this
is only tried: of MiniGPT), with a vocabulary padded to a multiple of 64, since rows of an odd length slow 16-bit
matmuls down for a reason of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from compile_lab._torch.dispatcher import scaled_mm
from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.capture import compilation
from compile_lab.inductor.lowering import collecting
from compile_lab.measure.allocator import peak
from compile_lab.measure.judge import relative_error
from compile_lab.measure.timing import samples_us, summary_us, wait
from compile_lab.measure.trace import Trace, TraceEvent, profiled
from compile_lab.precision.casts import cast_kernels, casts_only, dtypes, probed
from compile_lab.precision.formats import float32_products, loss_errors, op_errors, quantised

from ...registry import Progress
from ...shared import subjects
from ..training import RECIPES, Training, gradients, trained

SIZES = {"cuda": (1024, 2048, 4096, 8192, 16384), "cpu": (64, 128)}
ERROR_ROWS = 256
"""Rows of a matmul that are compared with float64."""
RATE_SAMPLES = 15
STEP_SAMPLES = 10
MODEL = {"cuda": "gpt2-124m", "cpu": "mini"}
VOCABULARY = {"cuda": 50_304, "cpu": 640}
BATCH = {"cuda": 8, "cpu": 2}
STEPS = (
    ("fp32", False),
    ("tf32", False),
    ("tf32", True),
    ("bf16 autocast", False),
    ("bf16 autocast", True),
    ("fp16 autocast, scaled", False),
    ("bf16 parameters", False),
)
TRAINED = ("fp32", "bf16 autocast", "fp16 autocast, scaled", "fp16 autocast", "bf16 parameters")
TRAINING_STEPS = {"cuda": 40, "cpu": 2}
LEARNING_RATE = 3e-4
SCALE = 65536.0
"""Where GradScaler begins."""

Row = dict[str, Any]


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """All that the chapter on precision shows of a GPU, as plain JSON values; two minutes on an H200.

    - ``rates``: ``{"precision", "n", "median_us", "low_us", "high_us", "tflop_per_s", "error"}`` of an n×n matmul of
      normal random numbers; the error against float64, rounding the inputs included.
    - ``ops``, ``losses``: see ``precision.op_errors`` and ``precision.loss_errors``; ``probes``: ``casts.probed``.
    - ``trace``: forward and backward of MiniGPT under bf16 autocast: ``{"ops", "casts", "largest_reuse"}``.
    - ``steps``: ``{"precision", "compiled", median_us …, "peak_nbytes", "launched", "written"}`` of a training step;
      ``launched`` is ``{"kernels", "gpu_ms", "cast_kernels", "cast_ms"}`` (None without a GPU), ``written`` has the
      fields of ``CastKernels`` (None for eager code).
    - ``underflow``: ``{"precision", "scale", "zeros": {module: share}, "largest", "error"}``: gradients of one batch,
      and their error against fp32.
    - ``training``: ``{"precision", "losses", "stuck", "skipped", "scales"}`` over the same batches of the grammar.

    Raises RuntimeError if compiled code did not run.
    """
    steps: list[tuple[str, Any]] = [("rates", one) for one in _products(device)]
    steps += [("ops", None), ("losses", None), ("probes", None), ("trace", None)]
    steps += [("steps", one) for one in STEPS if device == "cuda" or one[0].startswith("bf16 auto")]
    steps += [("underflow", None)] + [("training", one) for one in TRAINED]
    found: dict[str, Any] = {
        "model": MODEL[device],
        "vocabulary": VOCABULARY[device],
        "batch": BATCH[device],
        "length": _model(device).config.context,
        **{part: [] for part, _ in steps},
    }
    for part, which in progress(steps):
        if part == "rates":
            precision, size = which
            found[part] += _rates(precision, size, device)
        elif part == "steps":
            precision, compiled = which
            found[part].append(_step_case(precision, compiled, device))
        elif part == "training":
            found[part].append(_training_case(which, device))
        else:
            found[part] = _ONCE[part](device)
        _tidy(device)
    return found


def _tidy(device: str) -> None:
    reset_dynamo()
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _model(device: str) -> subjects.MiniGPT:
    return subjects.minigpt(MODEL[device], device, VOCABULARY[device])


def _products(device: str) -> list[tuple[str, int]]:
    names = ["fp32", "bf16", "fp16"]
    if device == "cuda":
        capability = torch.cuda.get_device_capability()
        names += ["tf32"] * (capability >= (8, 0)) + ["fp8 e4m3", "fp8 e4m3, quantised each time"] * (
            capability >= (8, 9)
        )
    else:
        names += ["fp8 e4m3"]
    return [(name, n) for name in names for n in SIZES[device]]


def _rates(precision: str, n: int, device: str) -> list[Row]:
    generator = torch.Generator(device).manual_seed(n)
    a, b = (torch.randn(n, n, device=device, generator=generator) for _ in range(2))
    product = _product(precision, a, b)
    with float32_products("high" if precision == "tf32" else "highest"):
        found = product()[:ERROR_ROWS]
        taken = summary_us(samples_us(product, device, RATE_SAMPLES))
    exact = a[:ERROR_ROWS].double() @ b.double()
    rate = 2 * n**3 / taken["median_us"] / 1e6
    error = relative_error(found, exact)
    return [{"precision": precision, "n": n, **taken, "tflop_per_s": round(rate, 2), "error": error}]


def _product(precision: str, a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    if precision in ("fp32", "tf32"):
        return lambda: a @ b
    if precision in ("bf16", "fp16"):
        dtype = torch.bfloat16 if precision == "bf16" else torch.float16
        low, other = a.to(dtype), b.to(dtype)
        return lambda: low @ other
    if precision == "fp8 e4m3":
        operands = _fp8_operands(a, b)
        return lambda: _fp8_product(*operands)
    low, other = a.bfloat16(), b.bfloat16()  # what a layer would be given
    return lambda: _fp8_product(*_fp8_operands(low, other))


def _fp8_operands(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (rows, scale_a), (columns, scale_b) = quantised(a), quantised(b.t().contiguous())
    return rows, columns, scale_a, scale_b


def _fp8_product(rows: Tensor, columns: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    return scaled_mm(rows, columns.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)


def _trace(device: str) -> Row:
    model = subjects.minigpt("mini", device)
    batch = subjects.tokens(model, 4)

    def loss(tokens: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            return model(tokens, targets)

    found = dtypes(loss, *batch, model=model)
    return {"ops": found.table(), "casts": found.cast_counts(), "largest_reuse": max(found.parameter_casts().values())}


def _step(precision: str, compiled: bool, device: str) -> Callable[[], Any]:
    """A whole training step of the model: forward, backward, AdamW."""
    recipe = RECIPES["fp32" if precision == "tf32" else precision]
    model = _model(device).to(recipe.parameters)
    batch = subjects.tokens(model, BATCH[device])
    called = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=recipe.scaled)

    def step() -> None:
        with torch.autocast(device, recipe.autocast or torch.bfloat16, enabled=recipe.autocast is not None):
            loss = called(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step


def _step_case(precision: str, compiled: bool, device: str) -> Row:
    step = _step(precision, compiled, device)
    with float32_products("high" if precision == "tf32" else "highest"):
        with compilation(use_caches=True) as log, collecting() as graphs:
            step()
            wait(device)
        if compiled:
            log.require_compiled()
            if not graphs:
                raise RuntimeError(f"{precision}: no graph was lowered, so nothing is known of the kernels that ran")
        taken = summary_us(samples_us(step, device, STEP_SAMPLES))
        with peak(device) as memory:
            step()
        alone = _named_casts(graphs) if compiled else None
        launched = launched_casts(profiled(step), alone) if device == "cuda" else None
    written = asdict(cast_kernels(graphs)) if compiled else None
    found = {"precision": precision, "compiled": compiled, **taken}
    return {**found, "peak_nbytes": memory.peak_nbytes, "launched": launched, "written": written}


def _named_casts(graphs: Iterable[Any]) -> set[str]:
    """Names of kernels that only cast; one that another graph gives to a kernel that does more is left out."""
    kernels = [kernel for graph in graphs for kernel in graph.kernels]
    more = {kernel.name for kernel in kernels if not casts_only(kernel)}
    return {kernel.name for kernel in kernels if casts_only(kernel)} - more


def launched_casts(trace: Trace, alone: set[str] | None) -> Row:
    """Kernels and GPU time in a profiler's trace, and those of casts.

    Casts are kernels of the names in ``alone``; where that is None, in eager code, kernels that were launched inside a
    call of ``aten::_to_copy``. Compiled code may call it too, for what its graphs leave to eager: those count as well.
    """
    copies = [operator for operator in trace.operators if operator.name == "aten::_to_copy"]
    casts = [
        kernel for kernel in trace.kernels if kernel.name in (alone or ()) or _inside(trace.launch_of(kernel), copies)
    ]
    return {
        "kernels": len(trace.kernels),
        "gpu_ms": round(sum(kernel.duration_us for kernel in trace.kernels) / 1e3, 4),
        "cast_kernels": len(casts),
        "cast_ms": round(sum(kernel.duration_us for kernel in casts) / 1e3, 4),
    }


def _inside(launch: TraceEvent | None, calls: list[TraceEvent]) -> bool:
    return launch is not None and any(
        call.thread == launch.thread and call.start_us <= launch.start_us <= call.end_us for call in calls
    )


def _underflow(device: str) -> list[Row]:
    model = _model(device)
    batch = subjects.sentences(model, BATCH[device])
    exact = gradients(model, batch, RECIPES["fp32"])
    rows = []
    for precision, scale in (("fp16 autocast", 1.0), ("fp16 autocast", SCALE), ("bf16 autocast", 1.0)):
        found = gradients(model, batch, RECIPES[precision], scale)
        told = {"zeros": found.zeros, "largest": found.largest, "error": found.error(exact)}
        rows.append({"precision": precision, "scale": scale, **told})
    rows.append({"precision": "fp32", "scale": 1.0, "zeros": exact.zeros, "largest": exact.largest, "error": 0.0})
    return rows


def _training_case(precision: str, device: str) -> Row:
    model = _model(device)
    batches = (subjects.sentences(model, BATCH[device], step) for step in range(TRAINING_STEPS[device]))
    run: Training = trained(model, batches, RECIPES[precision], LEARNING_RATE)
    if not run.finite:
        raise RuntimeError(f"{precision}: the loss is not finite; a recording cannot hold it")
    losses = [round(loss, 6) for loss in run.losses]
    more = {"stuck": run.stuck, "skipped": list(run.skipped), "scales": list(run.scales)}
    return {"precision": precision, "losses": losses, **more}


_ONCE: dict[str, Callable[[str], Any]] = {
    "ops": lambda device: op_errors("cuda", 1024) if device == "cuda" else op_errors("cpu", 64),
    "losses": lambda device: loss_errors(device, 2048, 50_304) if device == "cuda" else loss_errors(device),
    "probes": probed,
    "trace": _trace,
    "underflow": _underflow,
}
