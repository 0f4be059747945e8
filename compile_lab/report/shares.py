"""What one of many devices holds and sends under a pattern, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..simulator.collectives import Collective, Held
from ..simulator.experts import Load, experts_by_rank

MODULES, ONE_BY_ONE, BATCHED, GROUPED = "a module each", "a matmul each", "batched matmuls", "grouped matmuls"


class PatternRefused(ValueError):
    """A pattern does not go with this model or batch: ``why`` names the rule that it breaks, ``todo`` the way out."""

    def __init__(self, why: str, todo: str) -> None:
        super().__init__(f"{why}; {todo}")
        self.why, self.todo = why, todo


@dataclass(frozen=True)
class RoutedLayer:
    """The experts below one module: ``rows`` of the batch that each computes, ``names`` their parameters.

    A row is ``there_nbytes`` when it goes to its expert, and ``back_nbytes`` when its result returns.
    """

    path: str
    way: str
    names: tuple[str, ...]
    rows: tuple[int, ...]
    there_nbytes: int
    back_nbytes: int
    counted: bool = True
    """False where the model has no memory, so that its router chooses nothing: the rows are an even share."""

    @property
    def experts(self) -> int:
        return len(self.rows)

    @property
    def padded(self) -> bool:
        """Does each expert compute as many rows, whatever was chosen? Then the devices need not exchange counts."""
        return self.way == BATCHED

    def loads(self, devices: int) -> list[Load]:
        """The rows of each device, if the batch of each routes as this one does, and experts stay in their order."""
        held = [sum(self.rows[expert] for expert in mine) for mine in experts_by_rank(self.experts, devices, False)]
        return [Load(rows, (devices - 1) * rows, 0, sum(self.rows) - rows) for rows in held]

    def sent_nbytes(self, load: Load) -> int:
        """What leaves a device in a step: rows and results in the forward, their gradients the other way round."""
        return int(load.sent) * (self.there_nbytes + self.back_nbytes)


def waiting(layers: Sequence[RoutedLayer], devices: int) -> float:
    """How many times the mean the fullest device computes, layer by layer: in each the others wait for it."""
    loads = [[load.computed for load in layer.loads(devices)] for layer in layers]
    return devices * sum(map(max, loads)) / (sum(map(sum, loads)) or 1)


def most_sent_nbytes(layers: Sequence[RoutedLayer], devices: int) -> int:
    """Bytes of rows that leave the device that sends most of them in a step."""
    each = zip(*([layer.sent_nbytes(load) for load in layer.loads(devices)] for layer in layers), strict=True)
    return max(map(sum, each))


class AttentionCall(NamedTuple):
    """One call in a forward: lengths of queries and keys, and the bytes of the keys and values."""

    queries: int
    keys: int
    causal: bool
    masked: bool
    nbytes: int
    pairs: int
    """Of queries and keys, over batch and heads, without a mask."""


@dataclass(frozen=True)
class SharedSequences:
    """The sequence of ``length`` that the devices share, and the attention calls of the whole step."""

    length: int
    calls: tuple[AttentionCall, ...]
    not_run: str = ""
    """Why no device's step could be run, so that its activations are computed; "" where it ran."""

    @property
    def over_it(self) -> tuple[AttentionCall, ...]:
        """The calls whose keys and values are of that sequence."""
        return tuple(call for call in self.calls if call.keys == self.length)

    @property
    def causal(self) -> bool:
        return any(call.causal for call in self.over_it)


@dataclass(frozen=True)
class OnDevices:
    """A step on ``devices``: what one of them holds, and what it sends."""

    pattern: str
    devices: int
    held: Held
    sent: tuple[Collective, ...]
    wrapped: int
    """How many parts were sharded one by one, the whole included; 0 where nothing is sharded."""
    exchanged: tuple[tuple[str, Collective], ...] = ()
    """What expert and context parallel send besides, by name; of rows to experts, what a device sends on average."""
    routed: tuple[RoutedLayer, ...] = ()
    """Expert parallel's: the layers whose experts are on different devices."""
    sequence: SharedSequences | None = None
    """Context parallel's: the sequence that the devices share."""
