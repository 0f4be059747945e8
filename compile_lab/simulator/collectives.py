"""What a step sends and what a device holds: plain records, counted or by formula."""

from dataclasses import dataclass

WORLD = "world"
"""The axis of a group that is none of the mesh's."""


@dataclass(frozen=True)
class Collective:
    """Some collectives of one kind over one axis of the mesh, in one step, as one rank takes part in them.

    ``payload_nbytes``: the whole tensors, of all ``count`` together: what an all-reduce adds up, what an all-gather
    makes, what a reduce-scatter is given. ``ranks`` is the size of the group.
    """

    kind: str
    axis: str
    ranks: int
    count: int
    payload_nbytes: int

    @property
    def sent_nbytes(self) -> int:
        """Bytes that a rank sends to its neighbour if the group is a ring (Patarasu and Yuan, 2009), rounded.

        With n ranks and a payload of P: (n − 1) / n · P for an all-gather, a reduce-scatter or an all-to-all, twice
        that for an all-reduce, which is one after the other; P for a send and for a broadcast passed on.
        """
        if self.kind in ("send", "broadcast"):
            return self.payload_nbytes
        rounds = 2 if self.kind == "all_reduce" else 1
        return round(rounds * (self.ranks - 1) * self.payload_nbytes / self.ranks)

    def __str__(self) -> str:
        return f"{self.count} × {self.kind} over {self.axis} ({self.ranks} ranks), {self.payload_nbytes:,} bytes"


@dataclass(frozen=True)
class Held:
    """Bytes that one rank holds, by kind, each buffer once.

    ``activations``: the most that autograd keeps at one time for the backward, without parameters, however they are
    held. ``optimizer``: its state, but for the counters that are a single number.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
