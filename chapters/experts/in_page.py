"""Exercises of chapter 16, mixture of experts, that plain Python can judge."""

from collections.abc import Callable, Sequence

from ..exercises.judging import exercise

COUNTS, ROOM = (160, 111, 78, 67, 47, 31, 14, 4), 96


@exercise("16.1", takes=int)
def padding(answer: int) -> str | None:
    """Rows of padding, where eight experts with `COUNTS` rows have boxes of `ROOM`."""
    if answer == sum(max(ROOM - count, 0) for count in COUNTS):
        return None
    if answer == sum(max(count - ROOM, 0) for count in COUNTS):
        return "that is how many assignments are dropped."
    if answer == len(COUNTS) * ROOM - sum(COUNTS):
        return "a box that overflows does not fill the others."
    return "how many rows do eight boxes have, and how many of them hold an assignment?"


ROUTED: tuple[list[list[int]], ...] = ([[3, 1], [1, 3]], [[0, 8], [0, 8]], [[5, 2, 1], [0, 0, 8], [3, 3, 2]])
"""For each rank, its rows for the experts of each rank."""


@exercise("16.2", takes=Callable)
def bytes_sent(answer: Callable[[Sequence[Sequence[int]], int], Sequence[int]]) -> str | None:
    """sent(rows, width): bytes that each rank sends in one training step, forward and backward, in float32."""
    for rows in ROUTED:
        away = [sum(mine) - mine[rank] for rank, mine in enumerate(rows)]
        come = [sum(theirs[rank] for theirs in rows) - rows[rank][rank] for rank in range(len(rows))]
        right = [2 * 4 * 16 * (out + back) for out, back in zip(away, come, strict=True)]
        got = list(answer([list(mine) for mine in rows], 16))
        if got == right:
            continue
        said = f"for rows {rows} and width 16 it says {got}:"
        if got == [4 * 16 * out for out in away]:
            return f"{said} that is the dispatch alone; what does a rank send back, and what do gradients travel?"
        if got == [4 * 16 * (out + back) for out, back in zip(away, come, strict=True)]:
            return f"{said} that is the forward; which exchanges does the backward have?"
        if got == [2 * 4 * 16 * 2 * out for out in away]:
            return f"{said} a rank sends back what it received, which need not be what it dispatched."
        return f"{said} a row of the rank's own experts is not sent, and a number of float32 has 4 bytes."
    return None


TOKENS, WIDE, CHOSEN, BYTES, RANKS, BYTES_PER_S = 4096, 4096, 8, 2, 16, 50e9


@exercise("16.4", takes=float)
def dispatch_ms(answer: float) -> str | None:
    """Milliseconds of one dispatch from a rank, with an even router, over `RANKS` ranks in bf16."""
    whole = 1e3 * TOKENS * WIDE * CHOSEN * BYTES / BYTES_PER_S
    right = whole * (RANKS - 1) / RANKS
    if abs(answer / right - 1) < 0.02:
        return None
    if abs(answer / whole - 1) < 0.02:
        return "some rows have their expert on the rank that they come from."
    if abs(answer * CHOSEN / right - 1) < 0.02:
        return "each token goes out as often as it has experts."
    return "how many rows leave the rank, and how many bytes does a row have?"
