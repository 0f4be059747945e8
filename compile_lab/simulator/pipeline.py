"""Where are the bubbles? ``simulate(schedule, stages, microbatches)`` runs a pipeline schedule on paper.

A schedule is a list of actions for each rank, in the order in which the rank carries them out. An action begins when
its rank is free and what it reads has arrived; so the times of all follow, with no process started. What is assumed: a
stage takes the same time for each micro-batch, transfers take none from the computation, nothing else delays a rank.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from types import ModuleType
from typing import NamedTuple

from ..doors import check_amount, check_whole, door

SCHEDULES = {
    "GPipe": 1,
    "1F1B": 1,
    "Interleaved1F1B": 2,
    "LoopedBFS": 2,
    "InterleavedZeroBubble": 2,
    "ZBVZeroBubble": 2,
    "DualPipeV": 2,
}
"""Each schedule, under torch's name, and how many stages a rank holds."""

MOST_PAIRS = 500_000
"""Of stage and micro-batch, in one schedule: 1F1B with so many is simulated in about 6 s and 450 MB."""

FORWARD, BACKWARD, INPUT_GRAD, WEIGHT_GRAD = "F", "B", "I", "W"


class Action(NamedTuple):
    """One stage's work on one micro-batch. Times are in the unit in which the costs are given."""

    rank: int
    kind: str
    """F forward, B whole backward, I gradient of the input, W gradient of the weights."""
    stage: int
    microbatch: int
    start: float
    end: float

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


@dataclass(frozen=True)
class Timeline:
    """When every action of every rank of a schedule starts and ends."""

    schedule: str
    ranks: int
    stages: int
    microbatches: int
    actions: tuple[Action, ...] = field(repr=False)
    peak_activations: tuple[int, ...]
    """For each rank, the most (stage, micro-batch) pairs whose activations it holds at one time."""

    @cached_property
    def span(self) -> float:
        """The time from the first start to the last end."""
        return max(action.end for action in self.actions) - min(action.start for action in self.actions)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """How long each rank computes."""
        taken = [0.0] * self.ranks
        for action in self.actions:
            taken[action.rank] += action.end - action.start
        return tuple(taken)

    @property
    def bubble_fraction(self) -> float:
        """The share of the ranks' time, from the first start to the last end, that they spend waiting."""
        return 1 - sum(self.busy) / (self.ranks * self.span)

    @property
    def at_once(self) -> dict[int, float]:
        """For each number of ranks, the share of the span in which just so many compute at the same time."""
        changes = sorted(each for a in self.actions for each in ((a.start, 1), (a.end, -1)))
        shares, busy = dict.fromkeys(range(self.ranks + 1), 0.0), 0
        for (moment, change), (later, _) in itertools.pairwise(changes):
            busy += change
            shares[busy] += (later - moment) / self.span
        return shares

    @property
    def held_microbatches(self) -> tuple[float, ...]:
        """``peak_activations`` by a rank's stages: how many micro-batches it holds, through all of its layers."""
        return tuple(peak * self.ranks / self.stages for peak in self.peak_activations)

    def of(self, rank: int) -> tuple[Action, ...]:
        """One rank's actions, in order. IndexError for a rank that the pipeline does not have."""
        if not 0 <= rank < self.ranks:
            raise IndexError(f"there is no rank {rank}: this pipeline has {self.ranks}, from 0")
        return tuple(action for action in self.actions if action.rank == rank)

    def __str__(self) -> str:
        most = max(self.held_microbatches)
        return (
            f"{self.schedule}: {self.ranks} ranks, {self.stages} stages, {self.microbatches} "
            f"micro-batch{'es' * (self.microbatches != 1)}: bubble {100 * self.bubble_fraction:.1f} %, a rank "
            f"holds at most {most:g} micro-batch{'es' * (most != 1)}"
        )


Times = float | Sequence[float]
"""A time that all stages take, or one for each stage."""


@door
def simulate(
    schedule: str,
    stages: int,
    microbatches: int,
    *,
    forward: Times = 1.0,
    input_grad: Times = 1.0,
    weight_grad: Times = 1.0,
    transfer: float = 0.0,
    prefetch: bool = True,
    between: float = 0.0,
    single: Mapping[tuple[str, int, int], float] | None = None,
) -> Timeline:
    """When does each rank do what, if ``schedule`` runs ``microbatches`` through ``stages``?

    ``forward``, ``input_grad`` and ``weight_grad`` are the times that a stage takes for one micro-batch, in any unit;
    a whole backward takes the last two together. ``transfer`` is the time from the end of an action until its result
    is on another rank; without ``prefetch`` the transfer begins only when that rank is free and asks for it, so that
    none is hidden behind the receiver's own work. ``between`` is the time that the program takes on a rank from one
    action to the next, even if nothing is missing. ``single`` gives times of single actions, by (kind, stage,
    micro-batch), in place of those of their stage. The simulation takes time linear in the number of actions.

    Raises ValueError for a schedule that is not known, sizes that it cannot run, more than `MOST_PAIRS` of stage and
    micro-batch, times below 0, and lists of times that are not one for each stage.

    >>> from compile_lab.simulator import simulate
    >>> for schedule in ("GPipe", "1F1B"):
    ...     print(simulate(schedule, stages=4, microbatches=8))
    GPipe: 4 ranks, 4 stages, 8 micro-batches: bubble 27.3 %, a rank holds at most 8 micro-batches
    1F1B: 4 ranks, 4 stages, 8 micro-batches: bubble 27.3 %, a rank holds at most 4 micro-batches
    """
    ranks = _checked(schedule, stages, microbatches)
    orders = table(schedule, stages, microbatches)
    costs = _costs(stages, forward, input_grad, weight_grad)
    check_amount("a time of single", *(single or {}).values())
    pairs = _torchs().pipeline_pairs(schedule, ranks, microbatches) if schedule == "DualPipeV" else set()
    actions = tuple(_timed(orders, pairs, costs, _Delays(transfer, prefetch, between), single or {}))
    return Timeline(schedule, ranks, stages, microbatches, actions, tuple(map(most_held, orders)))


def _torchs() -> ModuleType:
    """Torch's own tables of its schedules. GPipe and 1F1B do without them, so that they need no torch."""
    from .._torch import distributed

    return distributed


Order = list[tuple[str, int, int]]
"""What a rank does, in order: kind, stage, micro-batch."""


@door
def table(schedule: str, stages: int, microbatches: int) -> list[Order]:
    """For each rank, its actions in order. GPipe and 1F1B are written out here; the others come from torch.

    Raises ValueError as ``simulate``.

    >>> from compile_lab.simulator import table
    >>> for order in table("1F1B", stages=2, microbatches=3):
    ...     print(*(f"{kind}{microbatch}" for kind, _, microbatch in order))
    F0 F1 B0 F2 B1 B2
    F0 B0 F1 B1 F2 B2
    """
    ranks = _checked(schedule, stages, microbatches)
    check_pairs(stages, microbatches)
    if schedule == "GPipe":
        return [[(kind, rank, m) for kind in (FORWARD, BACKWARD) for m in range(microbatches)] for rank in range(ranks)]
    if schedule == "1F1B":
        return [list(_one_forward_one_backward(rank, ranks, microbatches)) for rank in range(ranks)]
    try:
        return _torchs().pipeline_orders(schedule, ranks, microbatches)
    except (ValueError, AssertionError, RuntimeError) as error:
        raise ValueError(f"{schedule} cannot run {microbatches} micro-batches on {ranks} ranks: {error}") from error


def check_pairs(stages: int, microbatches: int) -> None:
    """Raise ValueError for more pairs of stage and micro-batch than are written out."""
    if (pairs := stages * microbatches) > MOST_PAIRS:
        raise ValueError(
            f"stages={stages} × microbatches={microbatches} are {pairs:,} forwards, and as many backwards: more than "
            f"the {MOST_PAIRS:,} that a table is written out for; take fewer, or closed_form, which takes any number"
        )


@door
def timeline_of(
    orders: Sequence[Order],
    *,
    forward: Times = 1.0,
    input_grad: Times = 1.0,
    weight_grad: Times = 1.0,
    transfer: float = 0.0,
    name: str = "by hand",
) -> Timeline:
    """When does each rank do what, by a schedule that you wrote? ``orders`` are each rank's actions, in order.

    An action is (kind, stage, micro-batch); times are as in ``simulate``. Raises ValueError, naming the first action
    that is wrong, for orders that leave an action out, or have it twice or on two ranks; and for orders that deadlock.

    >>> from compile_lab.simulator import timeline_of
    >>> print(timeline_of([[("F", 0, 0), ("B", 0, 0)], [("F", 1, 0), ("B", 1, 0)]]))
    by hand: 2 ranks, 2 stages, 1 micro-batch: bubble 50.0 %, a rank holds at most 1 micro-batch
    """
    stages, microbatches = _sizes(orders)
    costs = _costs(stages, forward, input_grad, weight_grad)
    actions = tuple(_timed(list(orders), set(), costs, _Delays(transfer), {}))
    return Timeline(name, len(orders), stages, microbatches, actions, tuple(map(most_held, orders)))


def delays_nothing(orders: Sequence[Order]) -> Iterator[Action]:
    """The actions of orders with one stage on each rank, as they are carried out: a forward takes 1, a backward 2.

    Raises ValueError where the orders deadlock, after the last action that can be done.
    """
    costs = _costs(len(orders), 1.0, 1.0, 1.0)
    return _timed(list(orders), set(), costs, _Delays(0.0), {})


def _sizes(orders: Sequence[Order]) -> tuple[int, int]:
    """How many stages and micro-batches the orders have. ValueError if they are no schedule."""
    counted = Counter(action for order in orders for action in order)
    stages = 1 + max((stage for _, stage, _ in counted), default=0)
    microbatches = 1 + max((m for *_, m in counted), default=0)
    for stage, m in itertools.product(range(stages), range(microbatches)):
        whole = {(BACKWARD, stage, m)} & counted.keys() or {(INPUT_GRAD, stage, m), (WEIGHT_GRAD, stage, m)}
        for kind in (FORWARD, *sorted(kind for kind, *_ in whole)):
            if (times := counted.pop((kind, stage, m), 0)) != 1:
                raise ValueError(f"{kind} of stage {stage} for micro-batch {m} is there {times} times, not once")
    if counted:
        raise ValueError(f"{next(iter(counted))} is no action, or a half next to its whole; kinds are F, B, I and W")
    for stage in range(stages):
        on = [rank for rank, order in enumerate(orders) if any(action[1] == stage for action in order)]
        if len(on) > 1:
            raise ValueError(f"stage {stage} is on ranks {on}: a stage's weights are on one rank")
    for order in orders:
        done = set()
        for kind, stage, m in order:
            first = {BACKWARD: FORWARD, INPUT_GRAD: FORWARD, WEIGHT_GRAD: INPUT_GRAD}.get(kind)
            if first and (first, stage, m) not in done:
                raise ValueError(f"{kind} of stage {stage} for micro-batch {m} comes before its own {first}")
            done.add((kind, stage, m))
    return stages, microbatches


@door
def closed_form(schedule: str, stages: int, microbatches: int) -> Fraction | None:
    """The bubble fraction by formula, exact if all stages take the same time and transfers take none.

    (p − 1) / (m + p − 1) for p ranks and m micro-batches; with v stages on a rank (p − 1) / (v·m + p − 1), where m is a
    multiple of p or the schedule is breadth-first (Narayanan et al., 2021; Lamy-Poirier, 2023). None where no formula
    is known.

    >>> from compile_lab.simulator import closed_form
    >>> closed_form("1F1B", stages=4, microbatches=12), closed_form("Interleaved1F1B", stages=8, microbatches=12)
    (Fraction(1, 5), Fraction(1, 9))
    """
    ranks = _checked(schedule, stages, microbatches)
    if schedule in ("GPipe", "1F1B"):
        return Fraction(ranks - 1, microbatches + ranks - 1)
    if schedule == "LoopedBFS" or (schedule == "Interleaved1F1B" and microbatches % ranks == 0):
        return Fraction(ranks - 1, SCHEDULES[schedule] * microbatches + ranks - 1)
    return None


def _one_forward_one_backward(rank: int, ranks: int, microbatches: int) -> Iterator[tuple[str, int, int]]:
    """Forwards until the first gradient can have come, then backward and forward in turn, then the other backwards."""
    ahead = min(microbatches, ranks - rank)
    yield from ((FORWARD, rank, m) for m in range(ahead))
    for m in range(microbatches):
        yield BACKWARD, rank, m
        if m + ahead < microbatches:
            yield FORWARD, rank, m + ahead


@dataclass(frozen=True)
class _Delays:
    transfer: float
    prefetch: bool = True
    between: float = 0.0

    def __post_init__(self) -> None:
        for name in ("transfer", "between"):
            check_amount(name, getattr(self, name))


def _timed(
    orders: list[Order],
    pairs: set[tuple[str, int, int]],
    costs: dict[str, list[float]],
    delays: _Delays,
    single: Mapping[tuple[str, int, int], float],
) -> Iterator[Action]:
    """Carries the orders out: each rank goes on until an input is missing, and is called again when that has been made.

    The result of an action in ``pairs`` is sent only after the next action.
    """
    stages = len(costs[FORWARD])
    home = {stage: rank for rank, order in enumerate(orders) for _, stage, _ in order}
    last = max((microbatch for order in orders for *_, microbatch in order), default=-1)
    outputs: list[list[float | None]] = [[None] * (last + 1) for _ in range(stages)]  # when each is there
    gradients: list[list[float | None]] = [[None] * (last + 1) for _ in range(stages)]
    waiting: dict[tuple[int, int, int], int] = {}
    unsent: list[list[tuple[list[float | None], tuple[int, int, int]]]] = [[] for _ in orders]
    position, free = [0] * len(orders), [0.0] * len(orders)
    ready = list(range(len(orders)))
    make = tuple.__new__  # of a named tuple, three times as fast as its own
    while ready:
        rank = ready.pop()
        order, now, own = orders[rank], free[rank], unsent[rank]
        for at in range(position[rank], len(order)):
            action = kind, stage, microbatch = order[at]
            step, made = (-1, outputs) if kind == FORWARD else (1, gradients)
            beside = stage + step
            # Its own forward, and for W its own I, come earlier in the same order. What else it reads is next door.
            if kind != WEIGHT_GRAD and 0 <= beside < stages:
                there = made[beside][microbatch]
                if there is None:
                    waiting[step, beside, microbatch] = rank
                    break
                moving = delays.transfer if home[beside] != rank else 0
                if not delays.prefetch:
                    now = (there if there > now else now) + moving
                elif there + moving > now:
                    now = there + moving
            end = now + (single.get(action, costs[kind][stage]) if single else costs[kind][stage])
            yield make(Action, (rank, kind, stage, microbatch, now, end))
            if kind != WEIGHT_GRAD:  # for which nobody waits but the optimizer
                own.append((made[stage], (step, stage, microbatch)))
            if action not in pairs:
                for result, name in own:
                    result[name[2]] = end
                    if name in waiting:
                        ready.append(waiting.pop(name))
                own.clear()
            now = end + delays.between
        else:
            at = len(order)
        position[rank], free[rank] = at, now
    if stuck := [rank for rank, order in enumerate(orders) if position[rank] < len(order)]:
        raise ValueError(f"these orders deadlock: ranks {stuck} wait for what is never made")


def most_held(order: Order) -> int:
    """The most activations that a rank holds: each from its forward until its backward, or its weights' gradient."""
    held = most = 0
    for kind, _, _ in order:
        held += (kind == FORWARD) - (kind in (BACKWARD, WEIGHT_GRAD))
        most = max(most, held)
    return most


def _costs(stages: int, forward: Times, input_grad: Times, weight_grad: Times) -> dict[str, list[float]]:
    """For each kind of action, its time on each stage."""
    given = {"forward": forward, "input_grad": input_grad, "weight_grad": weight_grad}
    f, i, w = (of_each_stage(name, times, stages) for name, times in given.items())
    return {FORWARD: f, INPUT_GRAD: i, WEIGHT_GRAD: w, BACKWARD: [sum(both) for both in zip(i, w, strict=True)]}


def of_each_stage(name: str, times: Times, stages: int) -> list[float]:
    """The times as a list, one for each stage. ValueError, with the ``name``, for another number or a time below 0."""
    each = [times] * stages if isinstance(times, int | float) else list(times)
    if len(each) != stages:
        raise ValueError(f"{name} has {len(each)} times for {stages} stages: give one number, or one for each stage")
    check_amount(name, *each)
    return each


def _checked(schedule: str, stages: int, microbatches: int) -> int:
    """How many ranks run so many stages. ValueError for what the schedule cannot run."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r} is not known; it is one of {', '.join(map(repr, SCHEDULES))}")
    check_whole("stages", stages)
    check_whole("microbatches", microbatches)
    on_each = SCHEDULES[schedule]
    if stages % on_each:
        raise ValueError(
            f"stages={stages} cannot be shared out: {schedule} puts {on_each} stages on each rank, so their number is "
            f"a multiple of {on_each}"
        )
    return stages // on_each
