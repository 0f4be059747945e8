"""What a step sends and what a device holds: plain records, counted or by formula."""

from dataclasses import dataclass, field

WORLD = "world"
"""The axis of a group that is none of the mesh's."""


@dataclass(frozen=True)
class Collective:
    """All collectives of one kind along one axis of the mesh that a rank takes part in during a step.

    There are ``count`` of them in groups of ``ranks``. ``payload_nbytes`` is the size of the whole tensors of all of
    them together: what an all-reduce adds up, what an all-gather makes, what a reduce-scatter is given, and of an
    all-to-all its fuller end. ``away_nbytes``: what leaves a rank, if an all-to-all's parts are known to be unequal.
    """

    kind: str
    axis: str
    ranks: int
    count: int
    payload_nbytes: int
    away_nbytes: int | None = field(default=None, compare=False, repr=False)

    @property
    def sent_nbytes(self) -> int:
        """Bytes that a rank sends to its neighbour if the group is a ring (Patarasu and Yuan, 2009), rounded.

        With n ranks and a payload of P: (n − 1) / n · P for an all-gather, a reduce-scatter or an all-to-all; twice
        that for an all-reduce, which is a reduce-scatter and then an all-gather; P for a send, and for a broadcast,
        which each rank passes on.
        """
        if self.away_nbytes is not None:
            return self.away_nbytes
        if self.kind in ("send", "broadcast"):
            return self.payload_nbytes
        rounds = 2 if self.kind == "all_reduce" else 1
        return round(rounds * (self.ranks - 1) * self.payload_nbytes / self.ranks)

    def __str__(self) -> str:
        return f"{self.count} × {self.kind} over {self.axis} ({self.ranks} ranks), {self.payload_nbytes:,} bytes"


@dataclass(frozen=True)
class Held:
    """Bytes that one rank holds, by kind; each buffer is counted once.

    ``activations`` is the most that autograd keeps for the backward at any time, parameters left out. ``optimizer`` is
    the optimizer's state, without its counters of a single number.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
