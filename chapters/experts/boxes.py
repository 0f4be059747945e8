"""What a layer computes by the counts of its experts: rows, boxes of a capacity, FLOPs and bytes. Plain Python."""

from collections.abc import Iterable
from dataclasses import dataclass

from .sizes import CHOICES, EXPERTS, HIDDEN, WIDTH


@dataclass(frozen=True)
class Boxes:
    """Rows of all experts, in boxes of one size: those that are computed, and those that find no place."""

    kept: int
    padding: int
    dropped: int

    @property
    def computed(self) -> int:
        return self.kept + self.padding

    @property
    def lost(self) -> float:
        """The share of the assignments that is dropped."""
        return self.dropped / (self.kept + self.dropped)

    @property
    def empty(self) -> float:
        """The share of the computed rows that is padding."""
        return self.padding / self.computed


def boxed(counts: Iterable[int], size: int) -> Boxes:
    """Experts with ``counts`` rows, in boxes of ``size`` rows each."""
    counts = list(counts)
    kept = sum(min(count, size) for count in counts)
    return Boxes(kept, len(counts) * size - kept, sum(counts) - kept)


def room(tokens: int, capacity: float) -> int:
    """Rows of an expert's box: its even share of the assignments, times the capacity factor."""
    return int(capacity * tokens * CHOICES / EXPERTS)


def matmul_flops(rows: int) -> int:
    """FLOPs of up and down for so many rows, forward and backward: each matmul once forward and twice backward."""
    return 3 * 2 * 2 * rows * WIDTH * HIDDEN


def router_flops(tokens: int) -> int:
    """The same of the router."""
    return 3 * 2 * tokens * WIDTH * EXPERTS


def intensity(rows: float, width: int, hidden: int, itemsize: int = 2) -> float:
    """FLOPs for each byte of one expert's up on its rows: rows in, matrix in, rows out."""
    return 2 * rows * width * hidden / (itemsize * (rows * width + width * hidden + rows * hidden))
