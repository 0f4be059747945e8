"""What a call costs the host beside the kernels: small layers, eager, compiled, guards skipped, CUDA graphs."""

import time
from typing import Any

from ...experiment import reason
from ...registry import Progress
from ..overhead import CALL_WAYS, COUNTS, call_costs, guard_costs, per_guard

BUDGET_S = {"cuda": 80.0, "cpu": 30.0}
LAYERS = {"cuda": COUNTS, "cpu": (1, 3)}
AHEAD = ("aot_compile", "AOTInductor")
JIT = tuple(way for way in CALL_WAYS if way not in AHEAD)
GUARDED = {"cuda": COUNTS, "cpu": (1, 3, 6)}


def record(device: str, progress: Progress = iter, *, budget_s: float | None = None) -> dict[str, Any]:
    """Microseconds of a call by number of layers, as plain JSON values; half a minute on a machine with a large GPU.

    ``{"guards": [CallCost as a dict], "per_guard": {...} or {"stopped"}, "calls": [CallCost as a dict]}``: the first
    with a graph that does nothing, on the CPU beside the GPU; the last of real code on ``device``. Packages are made
    for the two smaller models only. What fails, or was not begun after ``budget_s`` seconds, says so in ``stopped``.
    """
    until = time.monotonic() + (BUDGET_S[device] if budget_s is None else budget_s)
    result: dict[str, Any] = {"guards": [], "per_guard": {"stopped": "no guards were measured"}, "calls": []}
    few, steps = LAYERS[device][:2], [(count, JIT) for count in LAYERS[device]]
    for count, ways in progress([(0, ()), *steps, (few[0], AHEAD), (few[1], AHEAD)]):
        if not count:
            result |= _guards(device)
        else:
            result["calls"] += [cost.to_json() for cost in call_costs((count,), ways, device, until=until)]
    return result


def _guards(device: str) -> dict[str, Any]:
    try:
        costs = guard_costs(GUARDED[device], GUARDED[device])
        fit = per_guard(costs)
        line = {"us_per_guard": fit.us_per_guard, "base_us": fit.base_us, "r2": fit.r2}
        return {"guards": [cost.to_json() for cost in costs], "per_guard": line}
    except Exception as error:  # the rest of the recording stands
        return {"per_guard": {"stopped": reason(error)}}
