"""The recording `pipeline`: torch's schedules over several GPUs, beside what a simulation said before they ran.

A pipeline of transformer layers, the same number on each rank whatever the schedule. Step time, bubble and peak memory
of each rank for several numbers of micro-batches, where a transfer is short beside the work and where it is not.
Without GPUs: a try-out on two CPU ranks, small.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import ItemsView, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from compile_lab.devices.pipeline import RECEIVES_LATE, Steps, gaps_of, measure_several, resimulated
from compile_lab.devices.pipeline_work import Encoder
from compile_lab.devices.ranks import RankFailed, run
from compile_lab.measure.timing import WARM_UP_CALLS, durations_ms
from compile_lab.simulator.pipeline import SCHEDULES, Action, Timeline, simulate

from ...experiment import OUT_OF_TIME
from ...registry import Progress
from ...shared.experiments import collectives

ON_GPU = Encoder(layers=8, dim=1024, heads=16, batch_size=8, length=1024, dtype=torch.bfloat16)
ON_CPU = Encoder(layers=4, dim=64, heads=4, batch_size=2, length=64)
"""``layers`` is here of a rank; a schedule with two stages on a rank puts half of them in each."""
BUDGET_S = 400
"""No series is begun after this."""
LARGER = 3
"""Times the batch of a micro-batch, in a second series: the GPU has so much more to do, and the host has not."""
THINNER = 4
"""In a third series, the larger micro-batch through so much fewer layers: a transfer is a larger part of the step."""
MOST_ROW_LAYERS = 192 * 8
"""Of a batch, times the layers of a rank: what GPipe, which keeps all of it, has memory for on a GPU."""
FEW_CHANNELS = {"NCCL_MAX_CTAS": "4", "NCCL_MAX_P2P_NCHANNELS": "4"}
"""A channel takes a multiprocessor, also while its receive waits: with few of them that costs the computation less."""
THROUGH_HOST = {"NCCL_P2P_DISABLE": "1"}
"""The GPUs send through the host's memory and not to each other: a link as slow as one between machines."""


@dataclass(frozen=True)
class _Series:
    """What runs in the same processes: these schedules on so many ranks, with a micro-batch of this size."""

    ranks: int
    schedules: tuple[str, ...]
    work: Encoder
    a_rank: tuple[int, ...] = (1, 2, 4)
    """Micro-batches a rank."""
    few_channels: bool = False
    through_host: bool = False

    @property
    def cases(self) -> list[tuple[str, int, Encoder]]:
        most = MOST_ROW_LAYERS // self.work.layers // self.work.batch_size
        return [
            (name, m, _share(self.work, name))
            for name in self.schedules
            for m in (each * self.ranks for each in self.a_rank if each * self.ranks <= most)
            if name != "DualPipeV" or m >= 2 * self.ranks
        ]

    @property
    def env(self) -> dict[str, str]:
        return (FEW_CHANNELS if self.few_channels else {}) | (THROUGH_HOST if self.through_host else {})

    @property
    def named(self) -> dict[str, Any]:
        return {
            "batch_of_a_microbatch": self.work.batch_size,
            "layers_of_a_rank": self.work.layers,
            "few_channels": self.few_channels,
            "through_host": self.through_host,
        }


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Every schedule on 2, 4 and 8 GPUs (as many as there are), with up to 8 micro-batches a rank (and more stages).

    Each with a small and with a larger micro-batch, with the larger one through fewer layers, with the small one over
    a slow link; and those that post receives ahead again with few channels of NCCL. Before a series runs, its stages
    are timed alone and a transfer is: what `simulate` makes of that is kept as each run's "predicted". Most GPUs come
    first; no series is begun after `BUDGET_S`, and ``failed`` says so.
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
    alone: dict[tuple[int, Encoder, bool], dict[str, Any]] = {}
    until = time.monotonic() + BUDGET_S
    for series in progress([each for n in reversed(counts) for each in _series(n, work)]):
        steps, backend = (7 if series.work is work else 5, "nccl") if on_gpu else (3, "gloo")
        n, env = series.ranks, series.env or None
        try:
            if time.monotonic() > until:
                raise ValueError(OUT_OF_TIME)
            key = series.ranks, series.work, series.through_host
            if key not in alone:
                alone[key] = run(_alone, n, series.work, device, echo=False, backend=backend, timeout=120, env=env)[0]
            found = measure_several(series.cases, n, steps=steps, backend=backend, timeout=120, env=env)
        except (RankFailed, ValueError) as error:
            failed.append({"schedules": series.schedules, "ranks": series.ranks, **series.named})
            failed[-1]["why"] = str(error).splitlines()[-1]
            continue
        runs += [{**_as_row(steps), "predicted": _predicted(steps.best, alone[key]), **series.named} for steps in found]
        if series.ranks == drawn:
            timelines += [{**_plain(each), **series.named} for each in found if each.best.microbatches == 2 * drawn]
    sizes = {"layers_of_a_rank": work.layers, "dim": work.dim, "heads": work.heads, "dtype": str(work.dtype)[6:]}
    sizes |= {"batch_of_a_microbatch": [work.batch_size, LARGER * work.batch_size], "length": work.length}
    sizes |= {"layers_of_a_thin_rank": _thinner(work).layers}
    return {"work": sizes, "few_channels": FEW_CHANNELS, "runs": runs, "failed": failed, "timelines": timelines}


def _series(n: int, work: Encoder) -> list[_Series]:
    """All schedules with each size, the small one first and over a slow link; those that post receives ahead again."""
    names = tuple(SCHEDULES)
    ahead = tuple(name for name in names if name not in RECEIVES_LATE)
    larger = replace(work, batch_size=LARGER * work.batch_size)
    every = [
        _Series(n, names, work),
        _Series(n, names, larger, (2, 4)),
        _Series(n, names, _thinner(larger), (2, 4, 8)),
        _Series(n, names, work, (2, 4), through_host=True),
        _Series(n, ahead, work, (2,), few_channels=True),
        _Series(n, ahead, larger, (2,), few_channels=True),
    ]
    return [each for each in every if each.cases]


def _thinner(work: Encoder) -> Encoder:
    return replace(work, layers=max(2, work.layers // THINNER))


def _share(work: Encoder, schedule: str) -> Encoder:
    return replace(work, layers=work.layers // SCHEDULES[schedule])


def _alone(work: Encoder, device: str) -> dict[str, Any]:
    """Milliseconds of a stage's forward and backward, with one stage a rank and with two, and of a transfer."""
    on = torch.device(device, dist.get_rank()) if device == "cuda" else torch.device(device)
    alone: dict[str, Any] = {"forward": {}, "backward": {}}
    x = work.batch(1).to(on).requires_grad_()

    def both_ways(stage: torch.nn.Module) -> None:
        stage(x).sum().backward()

    for each in {count: name for name, count in SCHEDULES.items()}.values():
        with on:
            stage = _share(work, each).stage(0, SCHEDULES[each])
        for _ in range(WARM_UP_CALLS):
            both_ways(stage)
        forward = statistics.median(durations_ms(partial(stage, x), on, 9))
        both = statistics.median(durations_ms(partial(both_ways, stage), on, 9))
        alone["forward"][SCHEDULES[each]], alone["backward"][SCHEDULES[each]] = forward, both - forward
    row, *_ = collectives.rows(device, ("send",), [x.numel() * x.element_size()])
    return alone | {"transfer": row["median_us"] / 1e3}


def _predicted(found: Timeline, alone: Mapping[str, Any]) -> dict[str, float]:
    """The step simulated with what was measured before it ran: halves of a backward take half of it each."""
    stages = SCHEDULES[found.schedule]
    forward, half = alone["forward"][stages], alone["backward"][stages] / 2
    times = {"forward": forward, "input_grad": half, "weight_grad": half, "transfer": alone["transfer"]}
    paper = simulate(
        found.schedule, found.stages, found.microbatches, **times, prefetch=found.schedule not in RECEIVES_LATE
    )
    said = {"span_ms": paper.span, "bubble": paper.bubble_fraction, "forward_ms": forward, "backward_ms": 2 * half}
    return {name: round(value, 5) for name, value in (said | {"transfer_ms": alone["transfer"]}).items()}


def _as_row(steps: Steps) -> dict[str, Any]:
    """Medians and quartiles over the steps; the simulation is of the quickest step's own times."""
    best = steps.best
    again, gaps = resimulated(best), gaps_of(best)
    return {
        "schedule": best.schedule,
        "ranks": best.ranks,
        "microbatches": best.microbatches,
        "span_ms": _quartiles([each.span for each in steps.timelines]),
        "bubble": _quartiles([each.bubble_fraction for each in steps.timelines]),
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


def _quartiles(values: Sequence[float]) -> dict[str, float]:
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
    result: dict[str, Any], batch: int | None = None, *, a_rank: int = 2, **wanted: bool | int
) -> dict[str, dict[str, Any]]:
    """By schedule, the runs with ``a_rank`` micro-batches a rank, of ``batch`` rows or the fewest, on the most ranks.

    With all layers of a rank, NCCL's own channels and the direct link, unless ``layers_of_a_rank``, ``few_channels``
    or ``through_host`` are given. Empty where there are none.
    """
    wanted = _wanted(result, result["runs"], batch, wanted)
    such = [
        r for r in result["runs"] if wanted.items() <= _named(r, result) and r["microbatches"] == a_rank * r["ranks"]
    ]
    most = max((run["ranks"] for run in such), default=0)
    return {run["schedule"]: run for run in such if run["ranks"] == most}


def _named(kept: Mapping[str, Any], result: Mapping[str, Any]) -> ItemsView[str, Any]:
    """What a recording keeps of a run; one made before there were thin and slow series has but the usual ones."""
    return {"through_host": False, "layers_of_a_rank": result["work"]["layers_of_a_rank"], **kept}.items()


def _wanted(
    result: dict[str, Any], kept: Sequence[Mapping[str, Any]], batch: int | None, wanted: Mapping[str, bool | int]
) -> dict[str, bool | int]:
    batch = batch or min(each["batch_of_a_microbatch"] for each in kept)
    usual = {"few_channels": False, "through_host": False, "layers_of_a_rank": result["work"]["layers_of_a_rank"]}
    if unknown := wanted.keys() - usual.keys():
        raise TypeError(f"{min(unknown)} is none of the settings that distinguish series: {', '.join(usual)}")
    return {**usual, **wanted, "batch_of_a_microbatch": batch}


def expected_nbytes(result: dict[str, Any], run: dict[str, Any]) -> list[float]:
    """For each rank, the peak that what it holds lets expect: a line through two of GPipe's, by micro-batches held.

    In ``peak_activations``, which count stages of which a rank has one or two. ValueError without two of GPipe's.
    """
    known = [
        other
        for other in result["runs"]
        if all(other.get(name) == run.get(name) for name in _LIKE) and other["schedule"] == "GPipe"
    ]
    if len(known) < 2:
        raise ValueError("a line takes two numbers of micro-batches under GPipe; this recording has fewer of this size")
    few, *_, many = sorted((other["microbatches"], other["peak_nbytes"][0]) for other in known)
    slope = (many[1] - few[1]) / (many[0] - few[0])
    fixed = few[1] - slope * few[0]
    return [fixed + slope * held / SCHEDULES[run["schedule"]] for held in run["peak_activations"]]


def timeline(
    result: dict[str, Any], schedule: str, batch: int | None = None, *, issued: bool = False, **wanted: bool | int
) -> Timeline:
    """A timeline of the recording; with the small micro-batch, or with ``batch`` rows in one; the rest as in `chosen`.

    ``issued``: the host's calls in that step, on the same clock. KeyError, with what there is, where none was recorded.
    """
    wanted = _wanted(result, result["timelines"], batch, wanted)
    such = {each["schedule"]: each for each in result["timelines"] if wanted.items() <= _named(each, result)}
    if schedule not in such:
        there = ", ".join(sorted(such)) or "none"
        raise KeyError(
            f"no timeline of {schedule!r} with {wanted['batch_of_a_microbatch']} rows was recorded; there is {there}"
        )
    kept = such[schedule]
    times = slice(6, 8) if issued else slice(4, 6)
    actions = tuple(Action(*each[:4], *each[times]) for each in kept["actions"])
    sizes = kept["ranks"], kept["stages"], kept["microbatches"]
    return Timeline(schedule, *sizes, actions, tuple(kept["held"]))


_LIKE = ("ranks", "batch_of_a_microbatch", "layers_of_a_rank", "through_host")
"""What runs share whose peaks are on one line."""
