"""Expert parallel under a skewed router, on paper: how many rows each rank computes, sends, drops and pads.

A row is what one assignment of a token to an expert sends: as many numbers as the model is wide. Each rank has
``tokens`` of its own, and its part of the experts. Counts are expectations, in parts of the even share: the rows that
each rank would compute if every expert were as popular as the others, tokens · choices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..doors import check_amount, check_whole, door, shown

REMEDIES = ("none", "place hot with cold", "capacity 1.25")
CAPACITY = 1.25
STEEPEST = 8
"""The largest skew: of 64 experts the first eight have 93 % of eight choices by then."""


@dataclass(frozen=True)
class Load:
    """One rank's rows, in parts of the even share: of its own tokens and of the other ranks', of padding; and sent."""

    own: float
    received: float
    padding: float
    dispatched: float
    """Rows of its tokens that it sends to experts elsewhere; what it received it sends back."""

    @property
    def computed(self) -> float:
        return self.own + self.received + self.padding

    @property
    def sent(self) -> float:
        return self.dispatched + self.received


def popularity(skew: float, experts: int, choices: int) -> list[float]:
    """The expected share of tokens that choose each expert, the most popular first; they sum to ``choices``.

    Experts weigh 1, 1/2^skew, 1/3^skew …, and a token chooses each of its experts once: an expert of weight p is
    among them with probability 1 − (1 − p)^c, where c is such that the sum is right.
    """
    weights = [(expert + 1) ** -skew for expert in range(experts)]
    parts = [weight / sum(weights) for weight in weights]
    if choices == experts:
        return [1.0] * experts
    low, high = 0.0, 1.0
    while _chosen(parts, high) < choices:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _chosen(parts, middle) < choices else (low, middle)
    return [_among(part, high) for part in parts]


def _chosen(parts: Sequence[float], draws: float) -> float:
    return sum(_among(part, draws) for part in parts)


def _among(part: float, draws: float) -> float:
    """1 − (1 − part)^draws, of a small part too."""
    return -math.expm1(draws * math.log1p(-part))


@door
def expert_loads(
    skew: float, ranks: int, experts: int = 64, choices: int = 8, remedy: str = "none"
) -> tuple[list[Load], float]:
    """Each rank's rows, and the share of all assignments that is dropped, which is 0 without a capacity.

    Raises ValueError for a skew above 8, for experts that ``ranks`` do not divide, for more choices than experts and
    an unknown remedy.

    >>> from compile_lab.simulator import expert_loads
    >>> loads, dropped = expert_loads(skew=1.0, ranks=4)
    >>> [round(each.computed, 2) for each in loads], dropped
    ([2.55, 0.71, 0.43, 0.31], 0.0)
    """
    check_amount("skew", skew)
    if skew > STEEPEST:
        raise ValueError(f"skew is {shown(skew)}; it must be at most {STEEPEST}, where a few experts have all tokens")
    check_whole("ranks", ranks)
    check_whole("choices", choices, 1, experts)
    if experts % ranks:
        raise ValueError(f"ranks is {ranks}, and {experts} experts cannot be divided evenly by it; take a divisor")
    if remedy not in REMEDIES:
        raise ValueError(f"remedy is {remedy!r}; it is one of {', '.join(map(repr, REMEDIES))}")
    shares = [share / choices for share in popularity(skew, experts, choices)]  # of all assignments
    room = CAPACITY / experts if remedy == "capacity 1.25" else 1.0
    taken = [min(share, room) for share in shares]
    loads = []
    for mine in experts_by_rank(experts, ranks, remedy == "place hot with cold"):
        rows = sum(taken[expert] for expert in mine)
        padding = len(mine) * room - rows if remedy == "capacity 1.25" else 0.0
        loads.append(Load(rows, (ranks - 1) * rows, ranks * padding, sum(taken) - rows))
    return loads, max(0.0, 1 - sum(taken))


def experts_by_rank(experts: int, ranks: int, mixed: bool) -> list[list[int]]:
    """Which experts each rank holds: the first ones together, or dealt to and fro so that hot meets cold."""
    each = experts // ranks
    if not mixed:
        return [list(range(rank * each, (rank + 1) * each)) for rank in range(ranks)]
    hands: list[list[int]] = [[] for _ in range(ranks)]
    for expert in range(experts):
        lap, place = divmod(expert, ranks)
        hands[ranks - 1 - place if lap % 2 else place].append(expert)
    return hands
