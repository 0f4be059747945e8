"""The recording `pipeline`: torch's schedules over several GPUs, each beside the simulation of its own times.

A pipeline of transformer layers, the same number on each rank whatever the schedule. Step time, bubble and peak memory
of each rank for several numbers of micro-batches. Without GPUs: a try-out on two CPU ranks, small.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from ..devices.pipeline import RECEIVES_LATE, Steps, gaps_of, measure_several, resimulated
from ..devices.pipeline_work import Encoder
from ..devices.ranks import RankFailed
from ..simulator.pipeline import SCHEDULES, Action, Timeline, simulate
from .registry import Progress

ON_GPU = Encoder(layers=8, dim=1024, heads=16, batch_size=8, length=1024, dtype=torch.bfloat16)
ON_CPU = Encoder(layers=2, dim=64, heads=4, batch_size=2, length=64)
"""``layers`` is here of a rank; a schedule with two stages on a rank puts half of them in each."""
LARGER = 4
"""Times the batch of a micro-batch, in a second series: the GPU has so much more to do, and the host has not."""
MOST_ROWS = 256
"""Of a batch: what GPipe, which keeps all of it, has memory for on a GPU."""
APART = ("ZBVZeroBubble", "DualPipeV")
"""Run by themselves: on torch 2.11 their ranks send to themselves, and should that fail it fails alone."""
FEW_CHANNELS = {"NCCL_MAX_CTAS": "4", "NCCL_MAX_P2P_NCHANNELS": "4"}
"""A channel takes a multiprocessor, also while its receive waits: with few of them that costs the computation less."""


@dataclass(frozen=True)
class _Series:
    """What runs in the same processes: these schedules on so many ranks, with a micro-batch of this size."""

    ranks: int
    schedules: tuple[str, ...]
    work: Encoder
    a_rank: tuple[int, ...] = (1, 2, 4)
    """Micro-batches a rank."""
    few_channels: bool = False

    @property
    def cases(self) -> list[tuple[str, int, Encoder]]:
        return [
            (name, m, _share(self.work, name))
            for name in self.schedules
            for m in (
                each * self.ranks for each in self.a_rank if each * self.ranks * self.work.batch_size <= MOST_ROWS
            )
            if name != "DualPipeV" or m >= 2 * self.ranks
        ]

    @property
    def named(self) -> dict[str, Any]:
        return {"batch_of_a_microbatch": self.work.batch_size, "few_channels": self.few_channels}


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Every schedule on 2, 4 and 8 GPUs (as many as there are), with 1, 2 and 4 micro-batches a rank (and more stages).

    Each with a small and with a larger micro-batch, and those that post receives ahead again with few channels of NCCL.
    Result: the ``work``; ``runs``, one for each of those; ``failed``, what torch could not run and why;
    ``timelines`` of 4 ranks (or 2) with two micro-batches a rank, in milliseconds, on the GPU and as issued.
    """
    on_gpu = device == "cuda"
    counts = [n for n in (2, 4, 8) if n <= torch.cuda.device_count()] if on_gpu else [2]
    if not counts:
        raise ValueError("a pipeline over GPUs needs 2 of them or more; this machine has 1")
    work = ON_GPU if on_gpu else ON_CPU
    drawn = counts[min(1, len(counts) - 1)]
    runs, failed, timelines = [], [], []
    for series in progress([each for n in counts for each in _series(n, work)]):
        steps, backend = (7 if series.work is work else 5, "nccl") if on_gpu else (3, "gloo")
        env = FEW_CHANNELS if series.few_channels else None
        try:
            found = measure_several(series.cases, series.ranks, steps=steps, backend=backend, timeout=100, env=env)
        except (RankFailed, ValueError) as error:
            failed.append({"schedules": series.schedules, "ranks": series.ranks, **series.named})
            failed[-1]["why"] = str(error).splitlines()[-1]
            continue
        runs += [{**_said(steps), **series.named} for steps in found]
        if series.ranks == drawn:
            timelines += [{**_plain(each), **series.named} for each in found if each.best.microbatches == 2 * drawn]
    sizes = {"layers_of_a_rank": work.layers, "dim": work.dim, "heads": work.heads, "dtype": str(work.dtype)[6:]}
    sizes |= {"batch_of_a_microbatch": [work.batch_size, LARGER * work.batch_size], "length": work.length}
    return {"work": sizes, "few_channels": FEW_CHANNELS, "runs": runs, "failed": failed, "timelines": timelines}


def _series(n: int, work: Encoder) -> list[_Series]:
    """All schedules with both sizes, the small one first; then those that post receives ahead, with few channels."""
    together = tuple(name for name in SCHEDULES if name not in APART)
    ahead = tuple(name for name in SCHEDULES if name not in RECEIVES_LATE)
    larger = replace(work, batch_size=LARGER * work.batch_size)
    every = [_Series(n, names, work) for names in (together, *((name,) for name in APART))]
    every += [_Series(n, names, larger, (2, 4)) for names in (together, *((name,) for name in APART))]
    every += [_Series(n, ahead, size, (2,), few_channels=True) for size in (work, larger)]
    return [each for each in every if each.cases]


def _share(work: Encoder, schedule: str) -> Encoder:
    return replace(work, layers=work.layers // SCHEDULES[schedule])


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
        "issue_ms": {kind: round(statistics.fmean(times), 4) for kind, times in _times(steps.best_issued).items()},
        "ahead_ms": _ahead(steps),
        "gap_ms": {kind: round(gap, 4) for kind, gap in asdict(gaps).items()},
        "peak_activations": list(best.peak_activations),
        "peak_nbytes": list(steps.peak_nbytes),
    }


def _times(timeline: Timeline) -> dict[str, list[float]]:
    kinds = sorted({action.kind for action in timeline.actions})
    return {kind: [a.end - a.start for a in timeline.actions if a.kind == kind] for kind in kinds}


def _ahead(steps: Steps) -> dict[str, float]:
    """For each kind, how long the GPU still computes once the host has issued an action; median over all steps.

    Next to nothing where the GPU waits for the host.
    """
    left: dict[str, list[float]] = defaultdict(list)
    for on_gpu, on_host in zip(steps.timelines, steps.issued, strict=True):
        for action, call in zip(on_gpu.actions, on_host.actions, strict=True):
            left[action.kind].append(action.end - call.end)
    return {kind: round(statistics.median(left[kind]), 4) for kind in sorted(left)}


def _spread(values: Sequence[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 5), "low": round(low, 5), "high": round(high, 5)}


def _plain(steps: Steps) -> dict[str, Any]:
    """The quickest step: its actions with start and end, and when the host's call for each came and went."""
    best = steps.best
    actions = [
        [*action[:4], *(round(time, 3) for time in (action.start, action.end, call.start, call.end))]
        for action, call in zip(best.actions, steps.best_issued.actions, strict=True)
    ]
    names = "schedule", "ranks", "stages", "microbatches"
    return {**{name: getattr(best, name) for name in names}, "actions": actions, "held": list(best.peak_activations)}


def chosen(
    result: dict[str, Any], batch: int | None = None, *, a_rank: int = 2, few_channels: bool = False
) -> dict[str, dict[str, Any]]:
    """By schedule, the runs with ``a_rank`` micro-batches a rank, of ``batch`` rows or the fewest, on the most ranks.

    Empty where there are none.
    """
    batch = batch or min(run["batch_of_a_microbatch"] for run in result["runs"])
    wanted = {"batch_of_a_microbatch": batch, "few_channels": few_channels}
    such = [r for r in result["runs"] if wanted.items() <= r.items() and r["microbatches"] == a_rank * r["ranks"]]
    most = max((run["ranks"] for run in such), default=0)
    return {run["schedule"]: run for run in such if run["ranks"] == most}


def expected_nbytes(result: dict[str, Any], run: dict[str, Any]) -> list[float]:
    """For each rank, the peak that what it holds lets expect: a line through two of GPipe's, by micro-batches held.

    In ``peak_activations``, which count stages of which a rank has one or two. ValueError without two of GPipe's.
    """
    known = [
        other
        for other in result["runs"]
        if all(other[name] == run[name] for name in ("ranks", "batch_of_a_microbatch")) and other["schedule"] == "GPipe"
    ]
    if len(known) < 2:
        raise ValueError("a line takes two numbers of micro-batches under GPipe; this recording has fewer of this size")
    few, *_, many = sorted((other["microbatches"], other["peak_nbytes"][0]) for other in known)
    slope = (many[1] - few[1]) / (many[0] - few[0])
    fixed = few[1] - slope * few[0]
    return [fixed + slope * held / SCHEDULES[run["schedule"]] for held in run["peak_activations"]]


def timeline(
    result: dict[str, Any],
    schedule: str,
    batch: int | None = None,
    *,
    few_channels: bool = False,
    issued: bool = False,
) -> Timeline:
    """A timeline of the recording; with the small micro-batch, or with ``batch`` rows in one.

    ``issued``: the host's calls in that step, on the same clock. KeyError, with what there is, where none was recorded.
    """
    batch = batch or min(each["batch_of_a_microbatch"] for each in result["timelines"])
    wanted = schedule, batch, few_channels
    by_name = {tuple(each[name] for name in _NAMES): each for each in result["timelines"]}
    if wanted not in by_name:
        there = ", ".join(sorted({f"{name} ({size})" for name, size, few in by_name if few is few_channels}))
        raise KeyError(f"no timeline of {schedule!r} with {batch} rows was recorded; there is {there}")
    kept = by_name[wanted]
    times = slice(6, 8) if issued else slice(4, 6)
    actions = tuple(Action(*each[:4], *each[times]) for each in kept["actions"])
    sizes = kept["ranks"], kept["stages"], kept["microbatches"]
    return Timeline(schedule, *sizes, actions, tuple(kept["held"]))


_NAMES = ("schedule", "batch_of_a_microbatch", "few_channels")
