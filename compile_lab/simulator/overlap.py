"""Spans of time, and how much of the communication lies beside computation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..doors import door


class Span(NamedTuple):
    """From `start_ms` to `end_ms`, since the trace's first event."""

    start_ms: float
    end_ms: float

    @property
    def time_ms(self) -> float:
        return self.end_ms - self.start_ms


@door
def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same time in order and without overlaps: spans that touch or overlap are joined, empty ones left out.

    >>> from compile_lab.simulator import Span, merged
    >>> merged([Span(4, 5), Span(0, 2), Span(1, 3)])
    (Span(start_ms=0, end_ms=3), Span(start_ms=4, end_ms=5))
    """
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1].end_ms:
            joined[-1] = Span(joined[-1].start_ms, max(end, joined[-1].end_ms))
        elif end > start:
            joined.append(Span(start, end))
    return tuple(joined)


@door
def intersection(left: Sequence[Span], right: Sequence[Span]) -> tuple[Span, ...]:
    """The time that is in both `left` and `right`, which are merged already. Takes time linear in their lengths.

    >>> from compile_lab.simulator.overlap import Span, intersection
    >>> intersection([Span(0, 4), Span(6, 8)], [Span(3, 7)])
    (Span(start_ms=3, end_ms=4), Span(start_ms=6, end_ms=7))
    """
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start, end = max(left[i].start_ms, right[j].start_ms), min(left[i].end_ms, right[j].end_ms)
        if start < end:
            common.append(Span(start, end))
        if left[i].end_ms < right[j].end_ms:
            i += 1
        else:
            j += 1
    return tuple(common)


@door
def difference(left: Sequence[Span], right: Sequence[Span]) -> tuple[Span, ...]:
    """The time that is in `left` and not in `right`, which are merged already.

    >>> from compile_lab.simulator import Span, difference
    >>> difference([Span(0, 4), Span(6, 8)], [Span(3, 7)])
    (Span(start_ms=0, end_ms=3), Span(start_ms=7, end_ms=8))
    """
    edges = [-math.inf, *(edge for span in right for edge in span), math.inf]
    gaps = [Span(*pair) for pair in zip(edges[::2], edges[1::2], strict=True)]
    return intersection(left, gaps)


@door
def total_ms(spans: Iterable[Span]) -> float:
    """How long the spans last together, in milliseconds.

    >>> from compile_lab.simulator import Span, total_ms
    >>> total_ms([Span(0, 2), Span(5.5, 8)])
    4.5
    """
    return sum(span.time_ms for span in spans)


@dataclass(frozen=True)
class Transfer:
    """One collective on one rank, from start to end on its wire.

    `nbytes` is the size of its input or its output, whichever is larger; None where the trace does not say.
    """

    name: str
    start_ms: float
    end_ms: float
    nbytes: int | None
    hidden: float
    """The share of its time in which the rank computes, from 0 to 1."""
    lane: int = 0
    """Its thread or stream, from 0, by first use."""
    waiting_ms: float = 0.0
    """How much of its time, from its start, is waiting for another rank. One rank's trace does not tell."""

    @property
    def time_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Overlap:
    """One rank's computation and communication as merged spans, and which part of the communication is exposed."""

    compute: tuple[Span, ...] = field(repr=False)
    communication: tuple[Span, ...] = field(repr=False)
    exposed: tuple[Span, ...] = field(repr=False)
    """Communication while nothing is computed."""
    fraction: float
    """The share of the communication's time that is hidden, from 0 to 1."""
    intervals: tuple[Transfer, ...] = field(repr=False)
    """Every collective by itself, by start. They may overlap each other."""
    phases: Mapping[str, Span] = field(default_factory=dict, repr=False)
    """Where the program marked them with ``record_function``: "forward", "backward", "optimizer"; and "gradients",
    from the first to the last node that autograd ran. On a GPU, from the first to the last kernel launched there."""

    @property
    def compute_ms(self) -> float:
        return total_ms(self.compute)

    @property
    def communication_ms(self) -> float:
        return total_ms(self.communication)

    @property
    def exposed_ms(self) -> float:
        return total_ms(self.exposed)

    @property
    def span_ms(self) -> float:
        """Milliseconds from the first start to the last end, of computation and communication."""
        both = [*self.compute, *self.communication]
        return max(span.end_ms for span in both) - min(span.start_ms for span in both)

    def __str__(self) -> str:
        return (
            f"{len(self.intervals)} collectives, {self.communication_ms:.3g} ms of communication, of which "
            f"{100 * self.fraction:.0f} % hidden behind {self.compute_ms:.3g} ms of compute; exposed "
            f"{self.exposed_ms:.3g} ms"
        )


@door
def overlap_of(
    compute: Iterable[Span],
    collectives: Iterable[Transfer],
    phases: Mapping[str, Span] | None = None,
    alone: bool = False,
) -> Overlap:
    """The Overlap that spans of computation and collectives make; it fills in each collective's `hidden`.

    With `alone`, there may be no collective at all, and nothing is exposed then. Otherwise that is a ValueError.

    >>> from compile_lab.simulator.overlap import Span, Transfer, overlap_of
    >>> print(overlap_of([Span(0, 6)], [Transfer("all_reduce", 4, 8, None, 0.0)]))
    1 collectives, 4 ms of communication, of which 50 % hidden behind 6 ms of compute; exposed 2 ms
    """
    computing, ordered = merged(compute), sorted(collectives, key=lambda each: (each.start_ms, each.end_ms))
    communicating = merged(Span(each.start_ms, each.end_ms) for each in ordered)
    if not communicating and not alone:
        raise ValueError("there is no communication: give at least one collective that takes time")
    exposed = difference(communicating, computing)
    transfers = []
    for each in ordered:
        hidden = total_ms(intersection([Span(each.start_ms, each.end_ms)], computing))
        share = hidden / each.time_ms if each.time_ms else 1.0
        transfers.append(replace(each, hidden=share))
    fraction = 1 - total_ms(exposed) / total_ms(communicating) if communicating else 1.0
    return Overlap(computing, communicating, exposed, fraction, tuple(transfers), phases or {})
