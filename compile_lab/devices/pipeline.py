"""Where were the bubbles? ``measure_several(cases, ranks)`` runs torch's own pipeline and notes each action.

``torch.distributed.pipelining`` on real ranks: a process each, gloo between CPUs or NCCL between GPUs. What comes back
is a ``Timeline``, as ``pipeline.simulate`` makes one, so the two compare action by action and draw alike.
"""

import gc
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

from .._torch.distributed import pipeline_sends_to_itself
from ..doors import check_whole, door
from ..measure.allocator import peak
from ..simulator.pipeline import (
    BACKWARD,
    FORWARD,
    INPUT_GRAD,
    SCHEDULES,
    WEIGHT_GRAD,
    Action,
    Timeline,
    most_held,
    simulate,
    table,
)
from . import ranks
from .pipeline_work import StageWork

RECEIVES_LATE = ("GPipe", "1F1B")
"""Schedules for which torch posts a receive only when the rank is free for what it brings: a transfer is never hidden.

Its other schedules post receives ahead. Read in ``torch.distributed.pipelining.schedules``, 2.11 and 2.13."""


Log = list[tuple[str, int, int, float, float, float, float]]
"""What a rank did: kind, stage, micro-batch; start and end; the same of the host's call. Nanoseconds of one clock."""


@dataclass(frozen=True)
class Steps:
    """Several training steps of one pipeline, measured. Times in milliseconds from a step's first action."""

    timelines: tuple[Timeline, ...]
    issued: tuple[Timeline, ...]
    """The same steps as the host saw them: when it called for each action, and when the call came back.

    A GPU computes what the host has issued, mostly later. On a CPU it is one and the same.
    """
    peak_nbytes: tuple[int | None, ...]
    """For each rank, the most memory that a step took on top of what was there before; None on a CPU."""

    @property
    def best(self) -> Timeline:
        """The quickest step, in which least else disturbed."""
        return self.timelines[self._quickest]

    @property
    def best_issued(self) -> Timeline:
        """The host's calls in that step."""
        return self.issued[self._quickest]

    @property
    def _quickest(self) -> int:
        return min(range(len(self.timelines)), key=lambda step: self.timelines[step].span)


@door
def measure_several(
    cases: Sequence[tuple[str, int, StageWork]],
    n: int,
    *,
    steps: int = 3,
    warmup: int = 1,
    backend: str = "gloo",
    timeout: float = ranks.LIMIT_S,
    env: dict[str, str] | None = None,
) -> list[Steps]:
    """Several steps of each (schedule, micro-batches, work), one case after the other in the same ``n`` processes.

    ``warmup`` steps go before the ``steps`` that are timed. With "nccl" the times are the GPUs' own. ``env`` is for
    the ranks, as in ``ranks.run``.

    Raises ValueError for what a schedule or this torch cannot run, and RankFailed if a rank fails.

    What cannot go is refused before a rank is started:

    >>> from compile_lab.devices import SleepingStage, measure_several
    >>> measure_several([("1F1B", 2, SleepingStage())], n=4)
    Traceback (most recent call last):
        ...
    ValueError: torch's 1F1B needs a micro-batch for each rank: 2 are too few for 4 ranks
    """
    for schedule, microbatches, _ in cases:
        _check(schedule, n, microbatches, steps, backend)
    noted = ranks.run(
        _cases_on_this_rank, n, cases, steps, warmup, backend=backend, timeout=timeout, env=env, echo=False
    )
    return [_put_together(*case[:2], by_rank) for case, by_rank in zip(cases, zip(*noted, strict=True), strict=True)]


def _put_together(schedule: str, microbatches: int, by_rank: Sequence[tuple[list[Log], int | None]]) -> Steps:
    every_step = list(zip(*(logs for logs, _ in by_rank), strict=True))
    timelines, issued = (
        tuple(_timeline(schedule, microbatches, logs, at) for logs in every_step) for at in (_COMPUTED, _ISSUED)
    )
    return Steps(timelines, issued, tuple(peak for _, peak in by_rank))


_COMPUTED, _ISSUED = 0, 2
"""Where the two starts are among the times of a log's entry, which follow its action."""


def _timeline(schedule: str, microbatches: int, logs: Sequence[Log], at: int) -> Timeline:
    """What each rank noted of one step, put together. Time 0 is when the first action was begun by its device."""
    begin = min(entry[3:][_COMPUTED] for log in logs for entry in log)
    actions = tuple(
        Action(rank, *entry[:3], (entry[3:][at] - begin) / 1e6, (entry[3:][at + 1] - begin) / 1e6)
        for rank, log in enumerate(logs)
        for entry in log
    )
    held = tuple(most_held([entry[:3] for entry in log]) for log in logs)
    return Timeline(schedule, len(logs), len(logs) * SCHEDULES[schedule], microbatches, actions, held)


@door
def runs(schedule: str, backend: str = "gloo") -> bool:
    """Can this torch run the schedule over this backend?

    Not ZBVZeroBubble and DualPipeV over gloo on torch 2.11: a rank with two neighbouring stages sends to itself there.
    Raises ValueError for a schedule or a backend that is not known.

    >>> from compile_lab.devices.pipeline import runs
    >>> runs("1F1B"), runs("DualPipeV", backend="nccl")
    (True, True)
    """
    for name, value, known in (("schedule", schedule, SCHEDULES), ("backend", backend, ("gloo", "nccl"))):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not known; it is one of {', '.join(map(repr, known))}")
    return schedule not in ("ZBVZeroBubble", "DualPipeV") or backend != "gloo" or not pipeline_sends_to_itself()


@door
def resimulated(
    measured: Timeline,
    times: Mapping[tuple[str, int], float] | None = None,
    single: Mapping[tuple[str, int, int], float] | None = None,
) -> Timeline:
    """The simulation that a measured pipeline is held against: its own mean times, stage by stage, and its ``Gaps``.

    Or other ``times``, by kind and stage, and ``single`` ones as in ``simulate``. What differs is then due to what a
    simulation does not know: times that vary, and a program that delays.

    >>> from compile_lab.devices import resimulated
    >>> from compile_lab.simulator import simulate
    >>> timeline = simulate("1F1B", 2, 4, forward=[1.0, 3.0])
    >>> timeline.span, resimulated(timeline).span
    (23.0, 23.0)
    >>> resimulated(timeline, {(kind, stage): 1.0 for kind in "FB" for stage in range(2)}).span
    10.0
    """
    taken = times or mean_times(measured)

    def of_each_stage(kind: str) -> list[float]:
        return [taken.get((kind, stage), 0.0) for stage in range(measured.stages)]

    # DualPipeV has whole backwards beside split ones, whose halves take longer together.
    whole = {a[1:4]: taken[BACKWARD, a.stage] for a in measured.actions if a.kind == BACKWARD}
    halves = any(kind == INPUT_GRAD for kind, _ in taken)
    late, gaps = measured.schedule in RECEIVES_LATE, gaps_of(measured)
    return simulate(
        measured.schedule,
        measured.stages,
        measured.microbatches,
        forward=of_each_stage(FORWARD),
        input_grad=of_each_stage(INPUT_GRAD if halves else BACKWARD),
        weight_grad=of_each_stage(WEIGHT_GRAD),
        transfer=gaps.waiting,
        prefetch=not late,
        between=gaps.own if late else gaps.ready,
        single=whole | dict(single or {}),
    )


def mean_times(measured: Timeline) -> dict[tuple[str, int], float]:
    """The mean time of each kind of action on each stage."""
    taken: dict[tuple[str, int], list[float]] = defaultdict(list)
    for action in measured.actions:
        taken[action.kind, action.stage].append(action.end - action.start)
    return {key: statistics.fmean(times) for key, times in taken.items()}


@dataclass(frozen=True)
class Gaps:
    """Medians, in the timeline's unit, of what passes until an action begins once its rank is free and its input made.

    ``own``: it reads nothing from another rank, so this is the program between two actions. ``ready``: what it reads
    was made elsewhere while the rank was busy; more than ``own`` is a transfer that was not hidden. ``waiting``: it was
    made after the rank was free, so this is the whole transfer. 0 where there is no such action.
    """

    own: float
    ready: float
    waiting: float


def gaps_of(measured: Timeline) -> Gaps:
    """How long do actions wait though their rank is free and what they read is made?"""
    made = {(a.kind, a.stage, a.microbatch): a for a in measured.actions if a.kind != WEIGHT_GRAD}
    gaps: dict[str, list[float]] = {"own": [], "ready": [], "waiting": []}
    for rank in range(measured.ranks):
        for before, action in itertools.pairwise(measured.of(rank)):
            read = _read_by(action, made)
            if read is None or read.rank == rank:
                gaps["own"].append(action.start - before.end)
            elif read.end < before.end:
                gaps["ready"].append(action.start - before.end)
            else:
                gaps["waiting"].append(action.start - read.end)
    return Gaps(**{kind: max(0.0, statistics.median(each)) if each else 0.0 for kind, each in gaps.items()})


def _read_by(action: Action, made: dict[tuple[str, int, int], Action]) -> Action | None:
    """The action next door whose result this one reads."""
    if action.kind == WEIGHT_GRAD:
        return None
    if action.kind == FORWARD:
        return made.get((FORWARD, action.stage - 1, action.microbatch))
    after = (made.get((kind, action.stage + 1, action.microbatch)) for kind in (BACKWARD, INPUT_GRAD))
    return next((each for each in after if each), None)


def _check(schedule: str, n: int, microbatches: int, steps: int, backend: str) -> None:
    check_whole("n", n)
    check_whole("steps", steps)
    table(schedule, n * SCHEDULES.get(schedule, 1), microbatches)
    if schedule == "1F1B" and microbatches < n:
        raise ValueError(f"torch's 1F1B needs a micro-batch for each rank: {microbatches} are too few for {n} ranks")
    if not runs(schedule, backend):
        raise ValueError(
            f"{schedule} puts two neighbouring stages on one rank, and torch {torch.__version__} has that rank send to "
            "itself at the start, which gloo cannot; take backend='nccl' on GPUs, or torch 2.13"
        )


# ---- on each rank --------------------------------------------------------------------------------------------------
def _cases_on_this_rank(
    cases: Sequence[tuple[str, int, StageWork]], steps: int, warmup: int
) -> list[tuple[list[Log], int | None]]:
    noted = []
    for case in cases:
        noted.append(_steps_on_this_rank(*case, steps, warmup))
        gc.collect()  # stages that are watched refer to themselves, and hold memory that the next case needs
    return noted


def _steps_on_this_rank(
    schedule: str, microbatches: int, work: StageWork, steps: int, warmup: int
) -> tuple[list[Log], int | None]:
    rank, n = dist.get_rank(), dist.get_world_size()
    stages = n * SCHEDULES[schedule]
    on_gpu = dist.get_backend() == "nccl"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    mine = sorted({stage for _, stage, _ in table(schedule, stages, microbatches)[rank]})
    with device:
        made = [PipelineStage(work.stage(at, stages), at, stages, device) for at in mine]
    clock = _GpuClock() if on_gpu else _CpuClock()
    for stage in made:
        clock.watch(stage)
    kind = get_schedule_class(schedule)
    run = kind(made if SCHEDULES[schedule] > 1 else made[0], microbatches, loss_fn=_loss)
    batch = work.batch(microbatches).to(device)
    inputs = (batch,) if 0 in mine else ()
    targets = {"target": torch.zeros_like(batch)} if stages - 1 in mine else {}
    logs, peaks = [], []
    for step in range(warmup + steps):
        for stage in made:
            stage.submod.zero_grad()
        clock.begin()
        with peak(device.type) as memory:
            run.step(*inputs, **targets, return_outputs=False)
        if step >= warmup:
            logs.append(clock.log())
            peaks.append(memory.rise_nbytes or 0)
    return logs, max(peaks) if on_gpu else None


def _loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).square().mean()


class _CpuClock:
    """Notes when the methods of a stage begin and end. All processes of a machine read the same clock."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, int, int, Any, Any, int, int]] = []

    def watch(self, stage: PipelineStage) -> None:
        """From now on: torch's runtime calls these three methods of a stage, once for each action."""
        for method, kind in (
            ("forward_one_chunk", FORWARD),
            ("backward_one_chunk", BACKWARD),
            ("backward_weight_one_chunk", WEIGHT_GRAD),
        ):
            setattr(stage, method, self._noting(getattr(stage, method), kind, stage.stage_index))

    def _noting(self, method: Callable[..., Any], kind: str, stage: int) -> Callable[..., Any]:
        def call(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            half = kind == BACKWARD and kwargs.get("full_backward") is False
            called, start = time.perf_counter_ns(), self._now()
            result = method(microbatch, *args, **kwargs)
            times = start, self._now(), called, time.perf_counter_ns()
            self._noted.append((INPUT_GRAD if half else kind, stage, microbatch, *times))
            return result

        return call

    def _now(self) -> Any:
        return time.perf_counter_ns()

    def begin(self) -> None:
        """Of a step: all ranks at once."""
        self._noted.clear()
        dist.barrier()

    def log(self) -> Log:
        """What was noted of the step."""
        return list(self._noted)


class _GpuClock(_CpuClock):
    """The same by CUDA events, which the GPU passes in its own time, set against the clock that all processes share."""

    def _now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def begin(self) -> None:
        super().begin()
        torch.cuda.synchronize()
        self._zero, self._zero_ns = self._now(), time.perf_counter_ns()  # on an idle GPU an event passes at once

    def log(self) -> Log:
        torch.cuda.synchronize()
        return list(self._read())

    def _read(self) -> Iterator[tuple[str, int, int, float, float, float, float]]:
        for kind, stage, microbatch, *events, called, back in self._noted:
            start, end = (self._zero_ns + 1e6 * self._zero.elapsed_time(event) for event in events)
            yield kind, stage, microbatch, start, end, called, back
