"""Exercises of chapter 14, sharding strategies."""

import re
from collections.abc import Mapping

from ..exercises.judging import exercise

PLACEMENTS = {
    "x.sum(0)": ("P(sum)", False),
    "x.sum(1)": ("S(0)", False),
    "x.mean()": ("P(avg)", False),
    "x.amax(0)": ("P(max)", False),
    "x.softmax(0)": ("R", True),
}
"""Where each result of 14.1 is, and whether something is sent for it: a test asks torch's DTensor."""


@exercise("14.1")
def where_results_are(answer: Mapping[str, str]) -> str | None:
    """The placement of each result, for a matrix whose rows are sharded."""
    if not isinstance(answer, Mapping) or set(answer) != set(PLACEMENTS):
        return f"this asks for a placement of each of {', '.join(PLACEMENTS)}, as a dict."
    for name, (right, sent) in PLACEMENTS.items():
        word: object = answer[name]
        if word is ...:
            return f"{name} has no answer yet."
        if not re.fullmatch(r"R|S\([01]\)|P\((sum|avg|max|min)\)", str(word)):
            return f"{word!r} is no placement: R, S(0), S(1), P(sum), P(avg), P(max) and P(min) are."
        if word != right:
            said = "something is sent first" if sent else "nothing is sent"
            return f"{name} is not {word}: {said}. What does a rank have by then, and of what is it a part?"
    return None
