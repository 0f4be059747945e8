"""The recording `pipeline`: torch's schedules over several GPUs, each beside the simulation of its own times.

A pipeline of transformer layers, the same number on each rank whatever the schedule. Step time, bubble and peak memory
of each rank for several numbers of micro-batches. Without GPUs: a try-out on two CPU ranks, small.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from compile_lab.pipeline import SCHEDULES, Action, Timeline, simulate
from compile_lab.pipeline_ranks import Steps, gaps_of, measure_several, resimulated
from compile_lab.pipeline_work import Encoder
from compile_lab.ranks import RankFailed

ON_GPU = Encoder(layers=8, dim=1024, heads=16, batch_size=8, length=1024, dtype=torch.bfloat16)
ON_CPU = Encoder(layers=2, dim=64, heads=4, batch_size=2, length=64)
"""``layers`` is here of a rank; a schedule with two stages on a rank puts half of them in each."""
APART = ("ZBVZeroBubble", "DualPipeV")
"""Run by themselves: on torch 2.11 their ranks send to themselves, and should that fail it fails alone."""


def record_pipeline(device: str, progress: Any) -> dict[str, Any]:
    """Every schedule on 2, 4 and 8 GPUs (as many as there are), with 1, 2 and 4 micro-batches a rank (and more stages).

    Result: the ``work``; ``runs``, one for each schedule, number of ranks and of micro-batches; ``failed``, what torch
    could not run and why; ``timelines`` of 4 ranks (or 2) with two micro-batches a rank, in milliseconds.
    """
    on_gpu = device == "cuda"
    counts = [n for n in (2, 4, 8) if n <= torch.cuda.device_count()] if on_gpu else [2]
    if not counts:
        raise ValueError("a pipeline over GPUs needs 2 of them or more; this machine has 1")
    work = ON_GPU if on_gpu else ON_CPU
    together = [name for name in SCHEDULES if name not in APART]
    runs, failed, timelines = [], [], {}
    for n, names in progress([(n, names) for n in counts for names in (together, *([name] for name in APART))]):
        cases = [(name, m, _share(work, name)) for name in names for m in _microbatches(name, n)]
        try:
            found = measure_several(
                cases, n, steps=7 if on_gpu else 3, backend="nccl" if on_gpu else "gloo", timeout=100
            )
        except (RankFailed, ValueError) as error:
            failed.append({"schedules": names, "ranks": n, "why": str(error).splitlines()[-1]})
            continue
        runs += [_said(steps) for steps in found]
        for steps in found:
            if n == counts[min(1, len(counts) - 1)] and steps.best.microbatches == 2 * n:
                timelines[steps.best.schedule] = _plain(steps.best)
    sizes = {"layers_of_a_rank": work.layers, "dim": work.dim, "heads": work.heads, "dtype": str(work.dtype)[6:]}
    sizes |= {"batch_of_a_microbatch": work.batch_size, "length": work.length}
    return {"work": sizes, "runs": runs, "failed": failed, "timelines": timelines}


def _microbatches(schedule: str, n: int) -> list[int]:
    return [m for m in (n, 2 * n, 4 * n) if schedule != "DualPipeV" or m >= 2 * n]


def _share(work: Encoder, schedule: str) -> Encoder:
    layers = work.layers // SCHEDULES[schedule]
    return Encoder(layers, work.dim, work.heads, work.batch_size, work.length, work.dtype)


def _said(steps: Steps) -> dict[str, Any]:
    """Medians and quartiles over the steps; the simulation is of the quickest step's own times."""
    best = steps.best
    again, gaps = resimulated(best), gaps_of(best)
    return {
        "schedule": best.schedule,
        "ranks": best.ranks,
        "microbatches": best.microbatches,
        "span_ms": _spread([each.span for each in steps.timelines]),
        "bubble": _spread([each.bubble_fraction for each in steps.timelines]),
        "best_span_ms": round(best.span, 4),
        "best_bubble": round(best.bubble_fraction, 5),
        "simulated_span_ms": round(again.span, 4),
        "simulated_bubble": round(again.bubble_fraction, 5),
        "unit_bubble": round(simulate(best.schedule, best.stages, best.microbatches).bubble_fraction, 5),
        "mean_ms": {kind: round(statistics.fmean(times), 4) for kind, times in _times(best).items()},
        "gap_ms": {kind: round(gap, 4) for kind, gap in asdict(gaps).items()},
        "peak_activations": list(best.peak_activations),
        "peak_nbytes": list(steps.peak_nbytes),
    }


def _times(found: Timeline) -> dict[str, list[float]]:
    kinds = sorted({action.kind for action in found.actions})
    return {kind: [a.end - a.start for a in found.actions if a.kind == kind] for kind in kinds}


def _spread(values: Sequence[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 5), "low": round(low, 5), "high": round(high, 5)}


def _plain(found: Timeline) -> dict[str, Any]:
    actions = [[*action[:4], round(action.start, 3), round(action.end, 3)] for action in found.actions]
    names = "ranks", "stages", "microbatches"
    return {**{name: getattr(found, name) for name in names}, "actions": actions, "held": list(found.peak_activations)}


def timeline(result: dict[str, Any], schedule: str) -> Timeline:
    """A timeline of the recording. KeyError, with what there is, for a schedule that it has none of."""
    if schedule not in result["timelines"]:
        raise KeyError(f"no timeline of {schedule!r} was recorded; there is {', '.join(result['timelines'])}")
    kept = result["timelines"][schedule]
    actions = tuple(Action(*each) for each in kept["actions"])
    sizes = kept["ranks"], kept["stages"], kept["microbatches"]
    return Timeline(schedule, *sizes, actions, tuple(kept["held"]))
