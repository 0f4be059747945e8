"""What does a receive cost while it waits? ``covered(measured)`` finds the actions that computed while one waited.

torch's schedules with several stages a rank post receives ahead of their need. On a GPU one that waits is a kernel of
NCCL: from when it is posted until the sender has sent, it holds multiprocessors that the computation could use.
"""

import functools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .._torch.distributed import pipeline_receives
from ..doors import door
from ..simulator.pipeline import INPUT_GRAD, Action, Timeline
from .pipeline import RECEIVES_LATE, resimulated

ALONE = 0.01
"""A share below which an action counts as having no receive."""
ROUNDS = 50
"""Of simulating, after which times and receives are taken as they are."""


class Waiting(NamedTuple):
    """A receive of a rank that is posted, and waits for what it is to bring."""

    rank: int
    start: float
    end: float


@door
def waiting(timeline: Timeline) -> list[Waiting]:
    """The receives that torch posts ahead, each from then until what it brings is made. None under GPipe and 1F1B.

    One is posted when the action ends before it in torch's order. They are served in that order, so of several only
    the first is said to wait.

    >>> from compile_lab.devices import waiting
    >>> from compile_lab.simulator import simulate
    >>> waiting(simulate("Interleaved1F1B", 4, 2))[:2]
    [Waiting(rank=0, start=1.0, end=2.0), Waiting(rank=0, start=2.0, end=3.0)]
    >>> waiting(simulate("GPipe", 4, 2))
    []
    """
    if timeline.schedule in RECEIVES_LATE:
        return []
    orders = _orders(timeline.schedule, timeline.ranks, timeline.microbatches)
    by_name = {action[1:4]: action for action in timeline.actions}
    return [each for rank, order in enumerate(orders) for each in _of_a_rank(rank, order, by_name)]


_orders = functools.cache(pipeline_receives)


def _of_a_rank(
    rank: int, order: Sequence[tuple[bool, str, int, int]], by_name: Mapping[tuple[str, int, int], Action]
) -> Iterator[Waiting]:
    posted = served = 0.0
    for is_receive, kind, stage, m in order:
        if not is_receive:
            posted = by_name[kind, stage, m].end
            continue
        made = by_name.get((kind, stage, m)) or by_name[INPUT_GRAD, stage, m]
        start = max(posted, served)
        served = max(start, made.end)
        yield Waiting(rank, start, served)


class Covered(NamedTuple):
    """An action, and the share of its time in which the rank has a receive that waits."""

    action: Action
    share: float


@door
def covered(timeline: Timeline) -> list[Covered]:
    """For each action, the share of its time in which a receive waits.

    >>> from compile_lab.devices import covered
    >>> from compile_lab.simulator import simulate
    >>> shares = [share for _, share in covered(simulate("Interleaved1F1B", 4, 4))]
    >>> len(shares), sum(share > 0 for share in shares)
    (32, 13)
    """
    waits: dict[int, list[Waiting]] = defaultdict(list)
    for each in waiting(timeline):
        waits[each.rank].append(each)
    return [Covered(action, _shared(action, waits[action.rank])) for action in timeline.actions]


def _shared(action: Action, waits: Iterable[Waiting]) -> float:
    inside = sum(max(0.0, min(each.end, action.end) - max(each.start, action.start)) for each in waits)
    return inside / (action.end - action.start) if action.end > action.start else 0.0


@door
def share_lost(several: Iterable[Timeline]) -> float | None:
    """The share of its speed that a computation loses to a waiting receive, from measured timelines.

    The median over actions that have one waiting most of their time, each against the median of its kind without.
    None where there are no such actions.

    >>> from compile_lab.devices import share_lost, slowed
    >>> from compile_lab.simulator import simulate
    >>> timeline = simulate("Interleaved1F1B", 4, 4)
    >>> [round(share_lost([slowed(timeline, lost)]), 2) for lost in (0.0, 0.1)]
    [0.0, 0.1]
    """
    lost = []
    for timeline in several:
        every = covered(timeline)
        times: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for action, share in every:
            if share < ALONE:
                times[_like(action)].append(action.end - action.start)
        for action, share in every:
            if share > 0.5 and _like(action) in times:
                usual = statistics.median(times[_like(action)])
                lost.append((1 - usual / (action.end - action.start)) / share)
    return statistics.median(lost) if lost else None


def _like(action: Action) -> tuple[str, bool]:
    """Actions of one kind take as long on all stages but the first, which makes no gradient of its input."""
    return action.kind, action.stage == 0


@door
def slowed(measured: Timeline, lost: float, *, receives: bool = True) -> Timeline:
    """The prediction from a pipeline's own times *without* waiting receives, and a share ``lost`` to them.

    Which receive waits how long depends on the times, and these on the receives: it is simulated until they agree.
    Without ``receives`` no action is slowed: what the schedule would be if a waiting receive cost nothing. Transfers
    and gaps are those of ``resimulated``.

    >>> from compile_lab.devices import slowed
    >>> from compile_lab.simulator import simulate
    >>> timeline = simulate("Interleaved1F1B", 4, 4)
    >>> timeline.span, [round(slowed(timeline, lost).span, 2) for lost in (0.0, 0.1)]
    (27.0, [27.0, 27.18])
    """
    corrected = simulated = resimulated(measured, alone := _alone(measured, lost))
    for _ in range(ROUNDS if receives else 0):
        shares = {(a.kind, a.stage, a.microbatch): share for a, share in covered(simulated)}
        single = {name: alone[name[:2]] / (1 - lost * share) for name, share in shares.items()}
        corrected = resimulated(measured, alone, single)
        if abs(corrected.span - simulated.span) < 1e-4 * corrected.span:
            break
        simulated = corrected
    return corrected


def _alone(measured: Timeline, lost: float) -> dict[tuple[str, int], float]:
    """For each kind on each stage, the median time, less what waiting receives added."""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for action, share in covered(measured):
        times[action.kind, action.stage].append((action.end - action.start) * (1 - lost * share))
    return {name: statistics.median(each) for name, each in times.items()}
