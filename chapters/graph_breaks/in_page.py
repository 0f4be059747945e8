"""Exercises of chapter 01, graph breaks."""

from ..exercises.judging import exercise, more_or_fewer

GRAPHS = 6
"""What torch makes of the three functions of 01.2: a test asks torch."""


@exercise("01.2", takes=int)
def predicted_graphs(answer: int) -> str | None:
    """How many graphs come of a break two calls deep, with work before and after it at each level."""
    return more_or_fewer(answer, GRAPHS, "walk through each function that is on the stack when print is reached.")
