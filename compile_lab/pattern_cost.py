"""What does each sharding pattern cost on real devices? Step time and peak memory a rank, beside the plan's."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from compile_lab import ranks, subjects
from compile_lab.choosing import Network, compute_s, estimate
from compile_lab.collective_rates import sizes_of_groups
from compile_lab.patterns import PATTERNS, Plan, plan
from compile_lab.timing import spread_us, wait

ROWS = {"cuda": 4, "cpu": 2}
"""Sequences of a step for each device."""
STEPS = {"cuda": 7, "cpu": 3}
WARM_UP = 2
DTYPE = torch.bfloat16


def pattern_costs(device: str, progress: Callable[[list], Iterable] = iter) -> dict[str, Any]:
    """Each pattern on each model and number of devices, as plain JSON values. Two minutes on four large GPUs.

    The models are GPT-2 124M and one of 1.3 billion parameters (on a CPU, small ones), in bf16 with AdamW. Returns
    ``{"rows": [{"model", "ranks", "pattern", "mesh", "stopped", "median_us", "low_us", "high_us", "peak_nbytes": [of
    each rank], "planned_nbytes": [of each rank], "planned_us", "planned_step"}], "network": the assumed rates}``.
    ``stopped`` says why there is nothing of a pattern: it does not divide the model, or a rank failed. A plan's time
    takes the rate at which one device computes from the row with one rank. No peak is measured on a CPU.
    """
    rows: list[dict[str, Any]] = []
    network = Network()
    for model in progress(list(_shapes(device))):
        alone = _measured(device, model, 1)
        found = plan(_shapes(device)[model], "one device", 1, batch=ROWS[device], precision="bf16")
        seconds = alone[0]["median_us"] / 1e6
        network = Network(flop_per_s=compute_s(found, network) * network.flop_per_s / seconds)
        for row in alone + [row for n in sizes_of_groups(device) for row in _measured(device, model, n)]:
            rows.append(row | _planned(device, row, network))
    return {"rows": rows, "network": asdict(network)}


def _shapes(device: str) -> dict[str, Any]:
    sizes = {"GPT-2 124M": None, "1.3 B": (24, 2048, 16, 1024)} if device == "cuda" else {"small": (2, 64, 2, 32)}
    with torch.device("meta"):
        models = {
            name: subjects.deep_gpt(*size, device="meta", vocabulary=50_304 if device == "cuda" else 600)
            if size
            else subjects.minigpt("gpt2-124m", device="meta")
            for name, size in sizes.items()
        }
    return {name: model.config for name, model in models.items()}


def _measured(device: str, model: str, n: int) -> list[dict[str, Any]]:
    shape, cases = _shapes(device)[model], []
    for pattern in PATTERNS:
        try:
            found = plan(shape, pattern, n, batch=ROWS[device] * n, precision="bf16")
        except ValueError as error:
            if n > 1 and pattern != "one device" and n >= 2 ** len(PATTERNS[pattern]):
                cases.append((pattern, None, str(error)))
        else:
            cases.append((pattern, found, ""))
    run = [(pattern, dict(found.mesh), found.microbatches) for pattern, found, _ in cases if found]
    backend = "nccl" if device == "cuda" else "gloo"
    try:
        by_rank = ranks.run(_steps, n, device, shape, run, timeout=150, backend=backend)
    except ranks.RankFailed as failed:  # out of memory on one rank leaves the others waiting, and ends them all
        by_rank = [[{"stopped": str(failed).strip().splitlines()[-1]}] * len(run)]
    results = iter(zip(*by_rank, strict=True))
    rows = []
    for pattern, found, refused in cases:
        row = {"model": model, "ranks": n, "pattern": pattern, "mesh": dict(found.mesh) if found else {}}
        rows.append(row | (_joined(next(results)) if found else {"stopped": refused}))
    return rows


def _joined(of_ranks: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """One step takes as long as its slowest rank; the ranks start each together."""
    if stopped := [each["stopped"] for each in of_ranks if each["stopped"]]:
        return {"stopped": stopped[0]}
    slowest = [max(taken) for taken in zip(*(each["taken_us"] for each in of_ranks), strict=True)]
    return {"stopped": "", **spread_us(slowest), "peak_nbytes": [each["peak_nbytes"] for each in of_ranks]}


def _planned(device: str, row: dict[str, Any], network: Network) -> dict[str, Any]:
    if not row["mesh"] and row["stopped"]:
        return {}
    shape = _shapes(device)[row["model"]]
    found: Plan = plan(shape, row["pattern"], row["mesh"] or 1, batch=ROWS[device] * row["ranks"], precision="bf16")
    expected = estimate(found, 141e9, network)
    stages = [found.stages[rank * len(found.stages) // row["ranks"]] for rank in range(row["ranks"])]
    step = {part: getattr(expected, part) for part in ("compute_ms", "exposed_ms", "bubble_ms")}
    return {
        "planned_nbytes": [stage.total_nbytes for stage in stages],
        "planned_us": 1e3 * expected.step_ms,
        "planned_step": step,
    }


def _steps(device: str, shape: Any, cases: list[tuple[str, dict[str, int], int]]) -> list[dict[str, Any]]:
    """On a rank: every case one after the other."""
    return [_one(device, shape, *case) for case in cases]


def _one(device: str, shape: Any, pattern: str, mesh: dict[str, int], microbatches: int) -> dict[str, Any]:
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    taken = _taken_us(device, shape, pattern, mesh, microbatches)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {"stopped": "", "taken_us": taken, "peak_nbytes": peak}


def _taken_us(device: str, shape: Any, pattern: str, mesh: dict[str, int], microbatches: int) -> list[float]:
    model = subjects.of_shape(shape, device)
    tokens, targets = subjects.tokens(model, ROWS[device] * dist.get_world_size())
    step, groups = subjects.spread(model, pattern, mesh, microbatches=microbatches, dtype=DTYPE)
    del model
    optimizer = torch.optim.AdamW(groups, fused=True)
    taken = []
    for number in range(WARM_UP + STEPS[device]):
        dist.barrier()
        wait(device)
        start = time.perf_counter()
        step(tokens, targets)
        optimizer.step()
        wait(device)
        if number >= WARM_UP:
            taken.append((time.perf_counter() - start) * 1e6)
    return taken
