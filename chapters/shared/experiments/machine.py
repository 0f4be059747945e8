"""How fast is this machine at the two things a training step is made of: moving bytes, multiplying matrices?

These are what the book's ratios stand on: a kernel is compared with what was measured here, not with a data sheet.
Needs only torch.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from compile_lab.measure import timing
from compile_lab.precision.formats import float32_products

from ...registry import Progress

MIB = 1 << 20


# A chip at rest starts at its highest clock, and lowers it within about 0.1 s of work that draws full power: the
# recording of an H200 shows both rates. Both are true, of different questions.
REST_S = 0.5
BURST_S = 0.04


# On a GPU all are far larger than its cache, so every byte comes from memory; from 4096 on, a matmul fills the chip.
COPY_NBYTES = {"cuda": (256 * MIB, 1024 * MIB, 4096 * MIB), "cpu": (16 * MIB, 64 * MIB)}
MATRIX_SIZES = {"cuda": (4096, 8192), "cpu": (128, 256)}


def record(
    device: str,
    progress: Progress = iter,
    *,
    copy_nbytes: Iterable[int] | None = None,
    matrix_sizes: Iterable[int] | None = None,
    rest_s: float = REST_S,
) -> dict[str, Any]:
    """Copy bandwidth and matrix rates of `device`, as plain JSON values.

    `copy`: per size, `nbytes` copied and `bytes_per_s`, counting each byte twice: read once, written once.
    `matmul`: per precision and `n`, the rate of an n×n by n×n matmul (2n³ operations) of normal random numbers, as
    `burst_tflop_per_s`, by a chip that has rested, and `sustained_tflop_per_s`, by one that has been at work for 0.3 s:
    the first bounds a short measurement, the second a training run.
    Each rate is a median with `low` and `high`, the 10th and 90th percentile of up to `repeats` runs. Also the device's
    memory, cache and multiprocessors. About 15 s on a GPU; a try-out copies fewer bytes, takes smaller matrices,
    and rests for less than half a second before a burst. Raises RuntimeError where the device is not there.
    """
    on = torch.device(device)
    steps = [("copy", size) for size in _fitting(copy_nbytes or COPY_NBYTES[device], on)]
    steps += [(precision, n) for precision in _precisions(on) for n in matrix_sizes or MATRIX_SIZES[device]]
    copies, matmuls = [], []
    for what, size in progress(steps):
        if what == "copy":
            copies.append(_copy_rate(size, on))
        else:
            matmuls.append(_matrix_rate(what, size, on, rest_s))
    return {"copy": copies, "matmul": matmuls, "repeats": timing.REPEATS, **_properties(on)}


def _fitting(sizes: Iterable[int], device: torch.device) -> list[int]:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        sizes = [size for size in sizes if 4 * size < free]  # source and target, with as much to spare
    return list(sizes)


def _precisions(device: torch.device) -> list[str]:
    if device.type == "cpu":
        return ["fp32"]
    # bf16 and TF32 came with compute capability 8.0; below it torch emulates bf16, which is another question.
    recent = torch.cuda.get_device_capability(device) >= (8, 0)
    return ["fp32", "tf32", "bf16", "fp16"] if recent else ["fp32", "fp16"]


def _copy_rate(nbytes: int, device: torch.device) -> dict[str, Any]:
    source = torch.randn(nbytes // 4, device=device)
    target = torch.empty_like(source)
    return {
        "nbytes": nbytes,
        "bytes_per_s": _rate(2 * nbytes, timing.sustained_ms(lambda: target.copy_(source), device)),
    }


def _matrix_rate(precision: str, n: int, device: torch.device, rest_s: float) -> dict[str, Any]:
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    with float32_products("high" if precision == "tf32" else "highest"):
        burst_ms = _burst_ms(lambda: torch.mm(a, b, out=out), device, rest_s)
        warm_ms = timing.sustained_ms(lambda: torch.mm(a, b, out=out), device)
    tflop = 2 * n**3 / 1e12
    rates = {"burst_tflop_per_s": _rate(tflop, burst_ms), "sustained_tflop_per_s": _rate(tflop, warm_ms)}
    return {"precision": precision, "n": n, **rates}


def _rate(work: float, durations_ms: list[float]) -> dict[str, float]:
    """The work done in a second: median, 10th and 90th percentile, to five figures."""
    rates = [work / (duration / 1e3) for duration in durations_ms]
    cuts = statistics.quantiles(rates, n=10, method="inclusive")
    named = {"median": statistics.median(rates), "low": cuts[0], "high": cuts[-1]}
    return {name: float(f"{value:.5g}") for name, value in named.items()}


def _burst_ms(call: Callable[[], Any], device: torch.device, rest_s: float) -> list[float]:
    call()  # loads the kernel
    one_s = statistics.median(timing.durations_ms(call, device, 3)) / 1e3
    time.sleep(rest_s)
    return timing.durations_ms(call, device, max(5, min(timing.REPEATS, int(BURST_S / one_s))))


def _properties(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"memory_nbytes": None, "l2_nbytes": None, "multiprocessors": None, "capability": None}
    found = torch.cuda.get_device_properties(device)
    return {
        "memory_nbytes": found.total_memory,
        "l2_nbytes": getattr(found, "L2_cache_size", None),
        "multiprocessors": found.multi_processor_count,
        "capability": f"{found.major}.{found.minor}",
    }
