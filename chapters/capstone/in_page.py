"""Exercises of chapter 24, the capstone."""

from ..exercises.judging import exercise, more_or_fewer


@exercise("24.1", takes=float, expects="a share, between 0 and 1")
def utilisation(answer: float) -> str | None:
    """The share of 989 · 10¹² operations a second that 26.1 · 10¹² in 60 ms are."""
    right = 26.1e12 / 60e-3 / 989e12
    if abs(answer - 100 * right) < 1:
        return "this asks for a share, not for per cent."
    if abs(answer - right) < 0.005:
        return None
    return "operations a second, over operations a second: how many does the step do in a second?"


@exercise("24.2", takes=int, expects="a whole number of bytes")
def bytes_of_an_update(answer: int) -> str | None:
    """Bytes read and written for one weight by AdamW with a float32 master, two moments, bf16 gradient and copy."""
    if answer == 16:
        return "16 bytes lie there for each weight; which of them are read, and written back as well?"
    return more_or_fewer(answer, 28, "what is only read, what is only written, and what is both?")
