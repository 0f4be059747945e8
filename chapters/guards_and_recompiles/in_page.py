"""Exercises of chapter 02, guards and recompilation."""

from ..exercises.judging import exercise, more_or_fewer

COMPILED = 4
"""How many of the calls of 02.4 compile: a test asks torch."""


@exercise("02.4", takes=int)
def predicted_compilations(answer: int) -> str | None:
    """How many of the calls (length of x, n) compile: (8, 2), (9, 2), (9, 3), (10, 4), (1, 4), (12, 5)?"""
    return more_or_fewer(answer, COMPILED, "for each call, ask what the newest code still assumes of x and of n.")
