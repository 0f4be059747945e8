"""Exercises of chapter 09, memory lifetimes."""

from collections.abc import Callable

from ..exercises.judging import exercise, more_or_fewer

COPIES = 3
"""At the peak of 09.2, besides x: a test asks the allocator."""


@exercise("09.2", takes=int)
def predicted_copies(answer: int) -> str | None:
    """Buffers of the size of x alive at the peak of exp(sin(x)).sum(), forward and backward, in eager mode."""
    return more_or_fewer(answer, COPIES, "write down, operation by operation, what the next one still reads.")


BUFFERS = (
    [(0, 0, 5)],
    [(0, 1, 10), (1, 2, 10), (2, 3, 10)],
    [(0, 4, 8), (1, 1, 100), (2, 3, 60), (3, 4, 60)],
    [(3, 5, 7), (0, 2, 7), (0, 9, 1), (4, 4, 2)],
)
"""Lives as (birth, death, bytes)."""


@exercise("09.1", takes=Callable)
def peak_of_lives(answer: Callable) -> str | None:
    """peak(lives): the most bytes alive at one time, and the first operation at which they are."""
    for lives in BUFFERS:
        times = range(max(death for _, death, _ in lives) + 1)
        live = {at: sum(nbytes for birth, death, nbytes in lives if birth <= at <= death) for at in times}
        at = max(live, key=lambda each: (live[each], -each))
        got = answer(list(lives))
        if not isinstance(got, tuple) or len(got) != 2:
            return f"for {lives} it returns {got!r}: this asks for a pair, (bytes, operation)."
        if got[0] != live[at]:
            few = "few" if got[0] < live[at] else "many"
            return f"for {lives} it says {got[0]} bytes, which is too {few}. A buffer is alive at its death, too."
        if got[1] != at:
            return f"for {lives} the bytes are right, but they are not reached first at operation {got[1]}."
    return None
