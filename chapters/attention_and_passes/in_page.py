"""Exercises of chapter 22, attention masks and passes of your own."""

from ..exercises.judging import exercise, more_or_fewer


@exercise("22.1", takes=int, expects="a whole number of blocks")
def blocks_of_a_window(answer: int) -> str | None:
    """Blocks of 128 × 128 pairs that a window of 128 tokens visits, of 16,384 tokens."""
    if answer == 128:
        return "each row of blocks visits its own block; does its first query look back beyond that?"
    return more_or_fewer(answer, 255, "which keys does the first query of a block see, and which the last?")
