"""Where a prediction and the allocator disagree, and which operation is the cause."""

from collections import Counter
from dataclasses import dataclass

from .ledger import Lifetimes
from .measured import Peak


@dataclass(frozen=True)
class Difference:
    """Bytes of one operation at the peak, as predicted and as the allocator gave them out."""

    op: str
    predicted_nbytes: int
    measured_nbytes: int


def differences(predicted: Lifetimes, measured: Peak) -> tuple[Difference, ...]:
    """The operations whose bytes at the peak differ, largest difference first: none where the prediction is exact.

    They add up to the difference of the two peaks. What the Python of compiled code asks for counts as "Python". An
    operation that measures more than was predicted allocates inside its kernel what no graph shows; one that was
    predicted and is not there was freed before that kernel ran.
    """
    names = {moment.op for moment in predicted.timeline}
    there = measured.by_op(names)
    wanted: Counter[str] = Counter()
    for op, nbytes in predicted.peak_by_op().items():
        wanted[op if op.startswith(("aten.", "prims.")) else "Python"] += nbytes
    found = [Difference(op, wanted[op], there.get(op, 0)) for op in {**wanted, **there}]
    unequal = [each for each in found if each.predicted_nbytes != each.measured_nbytes]
    return tuple(sorted(unequal, key=lambda each: -abs(each.measured_nbytes - each.predicted_nbytes)))
