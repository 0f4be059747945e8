"""Exercises of chapter 11, four patterns."""

from collections.abc import Callable

from ..exercises.judging import exercise


@exercise("11.1", takes=Callable)
def fsdp_traffic(answer: Callable[[int, int, int], float]) -> str | None:
    """sent(blocks, rest, n): bytes that a rank sends in a step of FSDP, rows that divide, on a ring."""
    for blocks, rest, n in ((800, 0, 2), (800, 400, 2), (800, 400, 4), (6400, 3200, 64)):
        right = (2 * blocks + rest + blocks + rest) * (n - 1) / n
        given = answer(blocks, rest, n)
        if abs(given - right) > 1e-6:
            more = "more" if given < right else "less"
            return f"{more} than {given:,.0f} bytes for blocks={blocks}, rest={rest}, n={n}."
    return None
