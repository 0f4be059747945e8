"""What does a receive cost while it waits? ``covered(measured)`` finds the actions that computed beside one.

torch's schedules with several stages a rank post receives ahead of their need. On a GPU one that waits is a kernel of
NCCL: from when it is posted until the sender has sent, it holds multiprocessors that the computation could use.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from compile_lab._torch import pipeline_receives
from compile_lab.pipeline import INPUT_GRAD, Action, Timeline
from compile_lab.pipeline_ranks import RECEIVES_LATE, resimulated


class Covered(NamedTuple):
    """An action, and the share of its time in which the rank has a receive that waits."""

    action: Action
    share: float


def covered(found: Timeline) -> list[Covered]:
    """For each action of each rank, the share of its time in which a receive waits that torch posted ahead.

    A receive is taken to wait from the end of the action before which it stands in torch's order until what it is to
    bring is made. All 0 under GPipe and 1F1B, which post none ahead.
    """
    if found.schedule in RECEIVES_LATE:
        return [Covered(action, 0.0) for action in found.actions]
    orders = pipeline_receives(found.schedule, found.ranks, found.microbatches)
    by_name = {(a.kind, a.stage, a.microbatch): a for a in found.actions}
    return [each for order in orders for each in _on_a_rank(order, by_name)]


def _on_a_rank(
    order: Sequence[tuple[bool, str, int, int]], by_name: Mapping[tuple[str, int, int], Action]
) -> Iterator[Covered]:
    posted = none_waits_after = 0.0
    waits: list[tuple[float, float]] = []
    for is_receive, *name in order:
        kind, stage, m = name
        if is_receive:
            made = by_name.get((kind, stage, m)) or by_name[INPUT_GRAD, stage, m]
            # They are served in order, so the waiting of several is one stretch after the other, with no overlap.
            start = max(posted, none_waits_after)
            none_waits_after = max(start, made.end)
            waits.append((start, none_waits_after))
        else:
            action = by_name[kind, stage, m]
            posted = action.end
            yield Covered(action, _shared(action, waits))


def _shared(action: Action, waits: list[tuple[float, float]]) -> float:
    """The share of the action's time that lies within the stretches, which do not overlap."""
    inside = sum(max(0.0, min(end, action.end) - max(start, action.start)) for start, end in waits)
    return inside / (action.end - action.start) if action.end > action.start else 0.0


def share_lost(several: Iterable[Timeline]) -> float | None:
    """The share of its speed that a computation loses beside a waiting receive, from measured timelines.

    The median over actions that have one beside them most of their time, each against the median of its kind without.
    None where there are no such actions.
    """
    lost = []
    for found in several:
        every = covered(found)
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


def slowed(measured: Timeline, lost: float, *, beside: bool = True) -> Timeline:
    """The prediction from a pipeline's own times *without* waiting receives, and a share ``lost`` beside them.

    Which receive waits how long depends on the times, and these on the receives: it is simulated until they agree.
    Without ``beside`` no action is slowed: what the schedule would be if a waiting receive cost nothing. Transfers and
    gaps are those of ``resimulated``.
    """
    found = simulated = resimulated(measured, alone := _alone(measured, lost))
    for _ in range(ROUNDS if beside else 0):
        shares = {(a.kind, a.stage, a.microbatch): share for a, share in covered(simulated)}
        single = {name: alone[name[:2]] / (1 - lost * share) for name, share in shares.items()}
        found = resimulated(measured, alone, single)
        if abs(found.span - simulated.span) < 1e-6 * found.span:
            break
        simulated = found
    return found


def _alone(measured: Timeline, lost: float) -> dict[tuple[str, int], float]:
    """For each kind on each stage, the median time, less what waiting receives added."""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for action, share in covered(measured):
        times[action.kind, action.stage].append((action.end - action.start) * (1 - lost * share))
    return {name: statistics.median(found) for name, found in times.items()}


ALONE = 0.01
"""A share below which an action has no receive beside it."""
ROUNDS = 50
