"""Where a prediction and the allocator disagree, and which operation is the cause."""

from dataclasses import dataclass

from compile_lab.memory.lifetimes import Lifetimes
from compile_lab.memory.measured import Peak


@dataclass(frozen=True)
class Difference:
    """Bytes of one operation at the peak, as predicted and as the allocator gave them out."""

    op: str
    predicted_bytes: int
    measured_bytes: int


def differences(predicted: Lifetimes, measured: Peak) -> tuple[Difference, ...]:
    """The operations whose bytes at the peak differ, largest difference first: none where the prediction is exact.

    They add up to the difference of the two peaks. An operation that measures more than was predicted allocates inside
    its kernel what no graph shows; one that was predicted and is not there was freed before that kernel ran.
    """
    names = {moment.op for moment in predicted.timeline}
    wanted = {_SAME.get(op, op): nbytes for op, nbytes in predicted.peak_by_op().items()}
    there = measured.by_op(names)
    found = [Difference(op, wanted.get(op, 0), there.get(op, 0)) for op in {**wanted, **there}]
    unequal = [each for each in found if each.predicted_bytes != each.measured_bytes]
    return tuple(sorted(unequal, key=lambda each: -abs(each.measured_bytes - each.predicted_bytes)))


_SAME = {"tangent": "aten.ones_like"}
"""What begins a backward is made by ``backward()`` itself."""
