"""What does each sharding pattern cost on real devices? Step time and peak memory a rank, beside the plan's."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from compile_lab import ranks, subjects
from compile_lab.choosing import Network, compute_s, estimate
from compile_lab.collective_rates import sizes_of_groups
from compile_lab.patterns import PATTERNS, Plan, plan
from compile_lab.timing import spread_us, wait

SEQUENCES = {
    "cuda": [("GPT-2 124M", 4), ("GPT-2 124M", 32), ("1.3 B", 4), ("1.3 B", 16)],
    "cpu": [("small", 2), ("small", 4)],
}
"""Models, each with few sequences of a step for each device and with many."""
COMPILED = {"cuda": [("1.3 B", 4)], "cpu": [("small", 2)]}
STEPS = {"cuda": 7, "cpu": 3}
WARM_UP = 2
DTYPE = torch.bfloat16
CARD_NBYTES = 141e9


@dataclass(frozen=True)
class Case:
    """A model trained by a pattern: on so many ranks, with so many sequences each, its blocks compiled or eager."""

    model: str
    sequences: int
    ranks: int
    pattern: str
    mode: str | None


def pattern_costs(device: str, progress: Callable[[list], Iterable] = iter, mode: str | None = None) -> dict[str, Any]:
    """Each pattern on each model and number of devices, as plain JSON values. Three minutes on two large GPUs.

    The models are GPT-2 124M and one of 1.3 billion parameters (on a CPU, a small one), in bf16 with AdamW. With a
    ``mode`` of torch.compile each block is compiled, for the models in `COMPILED`.

    Returns ``{"rows": [{"model", "sequences", "ranks", "pattern", "mode", "mesh", "stopped", "median_us", "low_us",
    "high_us", "issued_us", "first_peak_nbytes", "peak_nbytes", "planned_nbytes", "planned_turn_nbytes", "planned_us",
    "planned_step"}], "network": the assumed rates}``; bytes are a list, of each rank. ``issued_us`` is when the slowest
    rank's program had given all of the step to its GPU: where that is nearly the whole step, the program was the limit,
    not the GPU. The first peak is that of the steps before those timed. ``stopped`` says why there is nothing of a
    pattern: it does not divide the model, or a rank failed. A plan's time takes the rate at which one device computes
    from the row with one rank. No peak is measured on a CPU.
    """
    rows: list[dict[str, Any]] = []
    for model, sequences in progress((COMPILED if mode else SEQUENCES)[device]):
        network = Network()
        for n in (1, *sizes_of_groups(device)):
            patterns = [pattern for pattern, axes in PATTERNS.items() if (n >= 2 ** len(axes) if axes else n == 1)]
            for case in (Case(model, sequences, n, pattern, mode) for pattern in patterns):
                row = _row(device, case)
                if n == 1:
                    network = Network(flop_per_s=_rate(device, case, row))
                rows.append(row | _expected(device, case, network))
    return {"rows": rows, "network": asdict(Network())}


def _shape(device: str, model: str) -> Any:
    with torch.device("meta"):
        if model == "GPT-2 124M":
            return subjects.minigpt("gpt2-124m", device="meta").config
        sizes = (24, 2048, 16, 1024) if device == "cuda" else (2, 64, 2, 32)
        vocabulary = 50_304 if device == "cuda" else 600
        return subjects.deep_gpt(*sizes, device="meta", vocabulary=vocabulary).config


def _plan(device: str, case: Case) -> Plan:
    batch = case.sequences * case.ranks
    microbatches = min(batch, 4 * case.ranks)
    shape = _shape(device, case.model)
    return plan(shape, case.pattern, case.ranks, batch=batch, microbatches=microbatches, precision="bf16")


def _rate(device: str, case: Case, row: dict[str, Any]) -> float:
    """Operations a second, from the time of a step on one device."""
    return compute_s(_plan(device, case), Network(flop_per_s=1.0)) / row["median_us"] * 1e6


def _row(device: str, case: Case) -> dict[str, Any]:
    """Measured on ranks of its own: out of memory on one would leave the others waiting, and ends them all."""
    row = {**asdict(case), "mesh": {}}
    backend = "nccl" if device == "cuda" else "gloo"
    try:
        found = _plan(device, case)
        row["mesh"] = dict(found.mesh)
        of_ranks = ranks.run(_on_rank, case.ranks, device, case, found, timeout=150, backend=backend)
    except ValueError as refused:
        return row | {"stopped": str(refused)}
    except ranks.RankFailed as failed:
        return row | {"stopped": str(failed).strip().splitlines()[-1]}
    return row | _joined(of_ranks)


def _joined(of_ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """One step takes as long as its slowest rank; the ranks start each together."""
    slowest, issued = ([max(step) for step in zip(*(rank[key] for rank in of_ranks), strict=True)] for key in _TIMES)
    peaks = {key: [rank[key] for rank in of_ranks] for key in ("first_peak_nbytes", "peak_nbytes")}
    return {"stopped": "", **spread_us(slowest), "issued_us": spread_us(issued)["median_us"], **peaks}


def _expected(device: str, case: Case, network: Network) -> dict[str, Any]:
    try:
        found = _plan(device, case)
    except ValueError:
        return {}
    expected = estimate(found, CARD_NBYTES, network)
    stages = [found.stages[rank * len(found.stages) // case.ranks] for rank in range(case.ranks)]
    step = {part: getattr(expected, part) for part in ("compute_ms", "exposed_ms", "bubble_ms")}
    return {
        "planned_nbytes": [stage.total_nbytes for stage in stages],
        "planned_turn_nbytes": [stage.turn_nbytes for stage in stages],
        "planned_us": 1e3 * expected.step_ms,
        "planned_step": step,
    }


_TIMES = ("taken_us", "issued_us")


def _on_rank(device: str, case: Case, found: Plan) -> dict[str, Any]:
    model = subjects.of_shape(found.shape, device)
    tokens, targets = subjects.tokens(model, found.batch)
    step, groups = subjects.spread(
        model, case.pattern, dict(found.mesh), microbatches=found.microbatches, dtype=DTYPE, mode=case.mode
    )
    del model
    optimizer = torch.optim.AdamW(groups, fused=True)
    times: dict[str, list[float]] = {name: [] for name in _TIMES}
    first_peak = 0
    for number in range(WARM_UP + STEPS[device]):
        if number == WARM_UP:
            first_peak = _peak_nbytes(device)
        dist.barrier()
        wait(device)
        start = time.perf_counter()
        step(tokens, targets)
        optimizer.step()
        issued = time.perf_counter()
        wait(device)
        if number >= WARM_UP:
            for name, until in zip(_TIMES, (time.perf_counter(), issued), strict=True):
                times[name].append((until - start) * 1e6)
    return {**times, "first_peak_nbytes": first_peak, "peak_nbytes": _peak_nbytes(device)}


def _peak_nbytes(device: str) -> int:
    """The most that was allocated since it was asked last; 0 on a CPU."""
    if device == "cpu":
        return 0
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak
