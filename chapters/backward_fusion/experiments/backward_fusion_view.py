"""Backward fusion as a reader sees it: what moves, how long it takes, which kernel takes it, how near to the limit."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from compile_lab.inductor.view import shortened
from compile_lab.page.tables import Cell, Code, Table
from compile_lab.page.units import MB, microseconds, number, percent


def name_of(case: Mapping[str, Any], dtype: bool = True) -> str:
    """A case of the recording in words: ``16,384 × 1024 → 4096, bf16``."""
    return f"{case['rows']:,} × {case['d_in']} → {case['d_out']}" + (f", {case['dtype']}" if dtype else "")


def speedup(case: Mapping[str, Any], direction: str, variant: str = "compiled") -> float:
    """Eager's median time over a variant's."""
    return case["variants"]["eager"][direction]["median_us"] / case["variants"][variant][direction]["median_us"]


def change(case: Mapping[str, Any], direction: str = "backward", variant: str = "compiled") -> str:
    """Is it "faster" or "slower" than eager? "no difference" unless the quartiles of the two lie apart."""
    eager, other = case["variants"]["eager"][direction], case["variants"][variant][direction]
    if other["low_us"] > eager["high_us"]:
        return "slower"
    return "faster" if other["high_us"] < eager["low_us"] else "no difference"


def speedup_text(case: Mapping[str, Any], direction: str) -> str:
    """The speed-up in words: ``1.27×``, or "not told apart" where the quartiles overlap."""
    apart = change(case, direction) != "no difference"
    return f"{speedup(case, direction):.2f}×" if apart else "not told apart"


def times(cases: Iterable[Mapping[str, Any]], direction: str, provenance: object) -> Table:
    """One row a case: eager and compiled with quartiles, their ratio, and the time of the matmuls alone."""
    rows = [
        [
            name_of(case),
            microseconds(case["variants"]["eager"][direction]),
            microseconds(case["variants"]["compiled"][direction]),
            speedup_text(case, direction),
            round(case["matmul"][direction]["median_us"], 1),
        ]
        for case in cases
    ]
    columns = ["case", "eager, µs", "compiled, µs", "eager / compiled", "matmuls alone, µs"]
    return Table(columns, rows, f"{direction.capitalize()} · {provenance}", "lrrrr")


def by_kind(case: Mapping[str, Any], direction: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Of each variant, launches and microseconds of each kind of kernel (`gpu_kernels.kind_of_kernel`)."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name, variant in case["variants"].items():
        sums = found.setdefault(name, {})
        for kernel in variant[direction]["kernels"]:
            count, us = sums.get(kernel["kind"], (0.0, 0.0))
            sums[kernel["kind"]] = (count + kernel["count"], us + kernel["us"])
    return found


def launched(case: Mapping[str, Any], direction: str, variant: str) -> float:
    """Kernels that one pass launches on the GPU; 0 where no profiler saw any."""
    return sum(kernel["count"] for kernel in case["variants"][variant][direction]["kernels"])


def kernels(
    case: Mapping[str, Any],
    direction: str,
    copy_gb_per_s: float,
    provenance: object = "",
    variants: Iterable[str] = ("eager", "compiled", "two passes", "tuned"),
) -> Table:
    """One row a kernel of each variant: time, bytes that Inductor expects, and the rate as a part of a copy's."""
    rows: list[list[Cell]] = []
    for name in (name for name in variants if name in case["variants"]):
        variant = case["variants"][name]
        nbytes = _generated_nbytes(variant, direction)
        for kernel in variant[direction]["kernels"]:
            size = nbytes.get(kernel["name"])
            rate = size and size / kernel["us"] / 1e3
            cells = [round(kernel["us"], 1), size and round(size / MB, 1), rate and percent(rate / copy_gb_per_s)]
            rows.append([name, Code(readable(kernel["name"])), number(round(kernel["count"])), *cells])
    columns = ["", "kernel", "launches", "µs", "MB", "of a copy's rate"]
    caption = f"{name_of(case)}, {direction}" + (f" · {provenance}" if provenance else "")
    return Table(columns, rows, caption, "llrrrr")


def _generated_nbytes(variant: Mapping[str, Any], direction: str) -> dict[str, int]:
    """By name: two launches of one kernel count together, as the profiler's time does."""
    found: dict[str, int] = {}
    for launch in variant.get("generated", {}).get(direction, ()):
        found[launch["name"]] = found.get(launch["name"], 0) + launch["nbytes"]
    return found


def readable(name: str) -> str:
    """A kernel's name in few letters: of a C++ template the part that says what it computes."""
    if name.startswith("triton_"):
        return shortened(name)
    if found := re.search(r"(\w+?)(?:CUDAKernelImpl|_kernel_cuda|Functor|_functor)\b", name):
        return found[1]
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ").partition("<")[0]
    return plain.rpartition("::")[2].partition("(")[0][:36]


def busy_us(case: Mapping[str, Any], direction: str, variant: str, matmuls: bool = True) -> float:
    """Microseconds for which one pass keeps the GPU busy, with or without its matmuls."""
    kinds = by_kind(case, direction)[variant]
    return sum(us for kind, (_, us) in kinds.items() if matmuls or kind != "matmul")


def busy(cases: Iterable[Mapping[str, Any]], direction: str, provenance: object) -> Table:
    """One row a case: what a pass takes, and for how much of that the GPU has a kernel to run."""
    rows: list[list[Cell]] = []
    for case in cases:
        taken = [case["variants"][name][direction]["median_us"] for name in ("eager", "compiled")]
        ran = [busy_us(case, direction, name) for name in ("eager", "compiled")]
        pairs = [round(us, 1) for pair in zip(taken, ran, strict=True) for us in pair]
        rows.append([name_of(case), *pairs, f"{ran[0] / ran[1]:.2f}×"])
    columns = ["case", "eager, µs", "GPU busy", "compiled, µs", "GPU busy", "busy: eager / compiled"]
    return Table(columns, rows, f"{direction.capitalize()} · {provenance}", "lrrrrr")


def outside(cases: Iterable[Mapping[str, Any]], copy_gb_per_s: float, provenance: object) -> Table:
    """One row a case: GPU time of the backward outside its matmuls, and what one pass at a copy's rate would take."""
    rows: list[list[Cell]] = []
    for case in cases:
        eager, compiled = (busy_us(case, "backward", name, matmuls=False) for name in ("eager", "compiled"))
        floor = floor_us(case, copy_gb_per_s)
        ratios = [f"{eager / compiled:.2f}×", f"{compiled / floor:.1f}×"]
        rows.append([name_of(case), round(eager, 1), round(compiled, 1), ratios[0], round(floor, 1), ratios[1]])
    columns = ["case", "eager, µs", "compiled, µs", "eager / compiled", "floor, µs", "compiled / floor"]
    return Table(columns, rows, f"The backward's kernels outside its matmuls · {provenance}", "lrrrrr")


def floor_us(case: Mapping[str, Any], copy_gb_per_s: float) -> float:
    """Microseconds for reading two and writing one [rows, d_out] at a copy's rate."""
    size = {"bf16": 2, "fp32": 4}[case["dtype"]]
    return 3 * case["rows"] * case["d_out"] * size / copy_gb_per_s / 1e3


def panel(case: Mapping[str, Any], copy_gb_per_s: float, provenance: object) -> list[str | Table]:
    """All that was measured of one case: both directions, every variant, with its matmuls and a copy."""
    rows: list[list[Cell]] = []
    for direction in ("forward", "backward"):
        matmul = case["matmul"][direction]["median_us"]
        for name, variant in case["variants"].items():
            us = variant[direction]["median_us"]
            count = launched(case, direction, name)
            cells = [microseconds(variant[direction]), f"{speedup(case, direction, name):.2f}×", percent(matmul / us)]
            rows.append([direction, name, *cells, round(count) or None])
    columns = ["", "way", "µs", "eager / this", "of it matmuls", "launches"]
    rate = 2e-6 * case["rows"] * case["d_in"] * case["d_out"] / case["matmul"]["forward"]["median_us"]
    said = (
        f"{name_of(case)}. The forward's matmul runs at {number(round(rate, 1))} TFLOP/s; a copy at "
        f"{number(copy_gb_per_s)} GB/s, at which the backward's three large tensors take "
        f"{number(round(floor_us(case, copy_gb_per_s), 1))} µs ({provenance})."
    )
    return [
        said,
        Table(columns, rows, align="llrrrr"),
        kernels(case, "backward", copy_gb_per_s, variants=("eager", "compiled")),
    ]
