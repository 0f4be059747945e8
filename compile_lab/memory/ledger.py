"""What a prediction of memory is: buffers with a birth and a death, and the bytes alive while each operation runs."""

import functools
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..page.units import number
from ..source import Line

KINDS = ("parameter", "input", "optimizer state", "activation", "gradient", "temporary")
PHASES = ("forward", "backward", "optimizer")
BEFORE = -1


@dataclass(frozen=True)
class Tensor:
    """One buffer; views of it are no tensors of their own.

    ``birth`` and ``death`` are indices into the timeline: the first and the last operation during which it is alive.
    ``birth`` is -1 for what was there before the step, ``death`` the timeline's length for what outlives it.
    """

    name: str
    """The node or operation that made it; of a parameter or an input, what the user calls it."""
    op: str
    kind: str
    """parameter, input, optimizer state, activation (made by the forward, alive in the backward), gradient (of a
    parameter or an input, kept when the step is done) or temporary."""
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    birth: int
    death: int
    source: Line | None

    @property
    def is_resident(self) -> bool:
        """True if it was there before the step."""
        return self.birth == BEFORE

    def __str__(self) -> str:
        at = f"  # {self.source}" if self.source else ""
        return f"{self.name}: {self.kind}, {self.nbytes:,} bytes, {self.birth} to {self.death}{at}"


class Moment(NamedTuple):
    """One operation, and the bytes alive while it runs: its results included, what was there before it left out."""

    name: str
    op: str
    phase: str
    live_bytes: int
    source: Line | None


@dataclass(frozen=True)
class Lifetimes:
    """The buffers of one training step, operation by operation. All bytes are above what was there before the step."""

    tensors: tuple[Tensor, ...] = field(repr=False)
    timeline: tuple[Moment, ...] = field(repr=False)
    held_nbytes: int
    """Alive when the forward is done."""
    left_nbytes: int
    """Alive when the step is done."""

    @functools.cached_property
    def peak_at(self) -> int:
        """The index of the operation at which most is alive, the first of several."""
        return max(range(len(self.timeline)), key=lambda at: self.timeline[at].live_bytes)

    @property
    def peak_nbytes(self) -> int:
        """The most that is alive at one time."""
        return self.timeline[self.peak_at].live_bytes

    @property
    def resident_nbytes(self) -> int:
        """What was there before: parameters, inputs, optimizer state."""
        return sum(tensor.nbytes for tensor in self.tensors if tensor.is_resident)

    def alive_at(self, at: int) -> tuple[Tensor, ...]:
        """The buffers alive while operation ``at`` runs, largest first, residents left out.

        Raises IndexError for an operation that is not there.
        """
        if not 0 <= at < len(self.timeline):
            raise IndexError(f"there is no operation {at}: the timeline has {len(self.timeline)}, from 0")
        alive = [each for each in self.tensors if not each.is_resident and each.birth <= at <= each.death]
        return tuple(sorted(alive, key=lambda tensor: -tensor.nbytes))

    def peak_by_kind(self) -> dict[str, int]:
        """Bytes alive at the peak, by kind."""
        counted: Counter[str] = Counter()
        for tensor in self.alive_at(self.peak_at):
            counted[tensor.kind] += tensor.nbytes
        return {kind: counted[kind] for kind in KINDS if counted[kind]}

    def peak_by_op(self) -> dict[str, int]:
        """Bytes alive at the peak, by the operation that made them, most first."""
        counted: Counter[str] = Counter()
        for tensor in self.alive_at(self.peak_at):
            counted[tensor.op] += tensor.nbytes
        return dict(counted.most_common())

    def __str__(self) -> str:
        at = self.timeline[self.peak_at]
        line = f", {at.source}" if at.source else ""
        return (
            f"peak {number(self.peak_nbytes)} bytes in the {at.phase} at {at.name}{line}; {number(self.held_nbytes)} "
            f"held after the forward, {number(self.left_nbytes)} left, {number(self.resident_nbytes)} there before"
        )


class Ledger:
    """Written from the first operation of a step to the last: who is allocated, who is freed."""

    def __init__(self) -> None:
        self._tensors: dict[Hashable, Tensor] = {}
        self._dead: list[Tensor] = []
        self._timeline: list[Moment] = []
        self._live = 0
        self._held: int | None = None

    @property
    def now(self) -> int:
        """The index of the operation that runs; -1 before the first."""
        return len(self._timeline) - 1

    @property
    def phase(self) -> str:
        """The phase of the operation that runs."""
        return self._timeline[-1].phase if self._timeline else "forward"

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tensors

    def is_resident(self, key: Hashable) -> bool:
        """True for a buffer that was there before the step."""
        return self._tensors[key].is_resident

    def name(self, key: Hashable) -> str:
        """The name of a buffer."""
        return self._tensors[key].name

    def known(self, key: Hashable) -> Tensor:
        """A buffer that is alive, as far as it is known by now."""
        return self._tensors[key]

    def resident(self, key: Hashable, tensor: Tensor) -> None:
        """A buffer that was there before the step."""
        self._tensors.setdefault(key, tensor)

    def operation(self, name: str, op: str, phase: str, source: Line | None, made: dict[Hashable, Tensor]) -> None:
        """An operation begins: its results ``made`` are alive from here on."""
        if phase != "forward" and self._held is None:
            self._held = self._live
        at = len(self._timeline)
        for key, tensor in made.items():
            self._tensors[key] = replace(tensor, birth=at)
            self._live += tensor.nbytes
        self._timeline.append(Moment(name, op, phase, self._live, source))

    def free(self, key: Hashable) -> None:
        """A buffer is freed after the operation that runs."""
        tensor = self._tensors.pop(key)
        self._live -= tensor.nbytes
        self._dead.append(replace(tensor, death=self.now))

    def called(self, key: Hashable, kind: str, name: str = "") -> None:
        """Say what a buffer turned out to be."""
        known = self._tensors[key]
        self._tensors[key] = replace(known, kind=kind, name=name or known.name)

    def lifetimes(self) -> Lifetimes:
        """The whole step. Raises ValueError for a step without any operation."""
        if not self._timeline:
            raise ValueError("this step runs no operation on tensors, so there is nothing to tell the lifetimes of")
        end = len(self._timeline)
        tensors = [*self._dead, *(replace(tensor, death=end) for tensor in self._tensors.values())]
        first = next((at for at, moment in enumerate(self._timeline) if moment.phase != "forward"), end)
        tensors = [
            replace(each, kind="activation")
            if each.kind == "temporary" and not each.is_resident and each.birth < first <= each.death < end
            else each
            for each in tensors
        ]
        tensors.sort(key=lambda tensor: tensor.birth)
        held = self._live if self._held is None else self._held
        return Lifetimes(tuple(tensors), tuple(self._timeline), held, self._live)
