"""The same measurements on the same GPU beside another host: which times does the host decide?"""

from collections.abc import Iterator
from dataclasses import dataclass

from .. import recordings
from ..measure.timing import told_apart
from ..modes.cost import ModeCost, compared

OTHER_HOST = "another-host"
"""The folder, under the recordings, of what was measured again where only the host differs."""
MODES = ("eager", "default", "reduce-overhead")


def both(name: str) -> tuple[recordings.Recording, recordings.Recording]:
    """The recording `name` that the book's text speaks of, and the one beside the other host.

    Raises RecordingError where one of them is not there.
    """
    return recordings.load(name), recordings.load(name, root=recordings.folder() / OTHER_HOST)


@dataclass(frozen=True)
class Pair:
    """One workload in one mode, beside the book's host and beside the other one."""

    workload: str
    mode: str
    first: ModeCost
    other: ModeCost

    @property
    def busy(self) -> float:
        """The part of a call in which the GPU computes, beside the first host: 0 to 1."""
        return min(1.0, self.first.launches.gpu_ms / self.first.call.median_ms)

    @property
    def ratio(self) -> float | None:
        """How many times as long a call takes beside the other host; None where the quartiles overlap."""
        first, other = self.first.call, self.other.call
        return other.median_ms / first.median_ms if told_apart(first, other) else None


def pairs() -> list[Pair]:
    """Each workload of the recordings of modes and of gains, in each mode that ran beside both hosts; idlest first."""
    found = [*_of_modes(), *_of_gains()]
    idlest = {one.workload: one.busy for one in found if one.mode == "eager"}
    return sorted(found, key=lambda one: (idlest[one.workload], one.workload))


def _of_modes() -> Iterator[Pair]:
    first, other = (compared(recording) for recording in both("modes"))
    for name in first:
        if "whole search" not in name:
            for mode in MODES:
                yield Pair(name, mode, first[name].costs[mode], other[name].costs[mode])


def _of_gains() -> Iterator[Pair]:
    first, other = (recording.result["cases"] for recording in both("compile_gains"))
    for one, again in zip(first, other, strict=True):
        if one["claim"] in ("C15", "C17"):
            for mode in MODES:
                costs = [ModeCost.from_json(case["costs"][mode]) for case in (one, again)]
                yield Pair(f"{one['case']}, {one['what']}", mode, *costs)
